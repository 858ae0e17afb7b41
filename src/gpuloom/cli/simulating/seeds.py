"""Seeds as people write them: ``42``, ``101-110``, ``1,5,7-9``."""

import re

from gpuloom.simulation.errors import SimulationError

_RANGE = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?", re.ASCII)
_MOST_SEEDS = 10_000


def read_seeds(text: str) -> tuple[int, ...]:
    """Read seeds, each once, in the order in which they are written.

    Raises SimulationError.
    """
    seeds: dict[int, None] = {}
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise SimulationError(f"--seeds {text!r}: expected numbers and ranges, such as 42, 101-110 or 1,5,7-9")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise SimulationError(f"--seeds {text!r}: {first}-{last} runs backwards: expected {last}-{first}")
        if last - first >= _MOST_SEEDS:
            raise SimulationError(f"--seeds {text!r}: expected at most {_MOST_SEEDS:,} seeds")
        seeds |= dict.fromkeys(range(first, last + 1))
    return tuple(seeds)
