"""Memory and descriptors of processes over time, and whether they are flat."""

import asyncio
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

EVERY_S = 5.0
QUARTER = 0.25
ENOUGH = 20
"""So many samples a quarter needs."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One process at one moment: memory resident, what of it is no file's, open descriptors.

    Proportional memory is not judged: it grows when other programs that share a library end.
    """

    at_s: float
    process: str
    pid: int
    rss_mib: float
    anonymous_mib: float
    descriptors: int


def read_sample(at_s: float, process: str, pid: int) -> Sample | None:
    """Return what a process has now; None when there is none."""
    folder = Path(f"/proc/{pid}")
    try:
        told = dict(line.split(":", 1) for line in (folder / "smaps_rollup").read_text().splitlines()[1:])
        descriptors = sum(1 for _ in (folder / "fd").iterdir())
    except (OSError, ValueError):
        return None
    return Sample(at_s, process, pid, _mib(told["Rss"]), _mib(told["Anonymous"]), descriptors)


class Footprint:
    """Samples the processes that `find` names; `samples`."""

    def __init__(self, find: Callable[[], Mapping[str, int]]):
        """Prepare; `find` returns process ids by name."""
        self.samples: list[Sample] = []
        self._find = find

    async def watch(self) -> None:
        """Sample until cancelled."""
        clock = asyncio.get_running_loop().time
        began_s = clock()
        while True:
            for process, pid in self._find().items():
                sample = await asyncio.to_thread(read_sample, clock() - began_s, process, pid)
                if sample is not None:
                    self.samples.append(sample)
            await asyncio.sleep(EVERY_S)


class Machine:
    """How much of all processors' time was idle since this was made: without any, everything is late for that alone."""

    def __init__(self) -> None:
        self._before = _read_ticks()

    def idle_share(self) -> float:
        """Return it, between 0 and 1."""
        spent = [now - then for now, then in zip(_read_ticks(), self._before, strict=True)]
        return sum(spent[3:5]) / max(sum(spent), 1)


def _read_ticks() -> list[int]:
    """Return the time of all processors: user, nice, system, idle, waiting for disks and so on."""
    return [int(ticks) for ticks in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


@dataclass(frozen=True, slots=True)
class Measure:
    """What stands for many samples, and by how much it may be more in the last quarter than in the one before."""

    typical: Callable[[Sequence[float]], float]
    limit: float


def _lowest_tenth(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=10)[0]


# A leader has two to three times as many connections as who stands by, so a median says who led for how long; what is
# never closed raises the lowest, too. One connection in twenty is 5 %.
MEASURES: Mapping[str, Measure] = {
    "rss_mib": Measure(statistics.median, 1.025),
    "anonymous_mib": Measure(statistics.median, 1.025),
    "descriptors": Measure(_lowest_tenth, 1.05),
}


@dataclass(frozen=True, slots=True)
class Growth:
    """One measure of one process in the third and in the last quarter of the time.

    A busy machine needs the first half until the process has seen all that it remembers.
    """

    process: str
    measure: str
    third: float
    last: float

    @property
    def share(self) -> float:
        """The last quarter as a multiple of the third."""
        return self.last / self.third

    @property
    def is_flat(self) -> bool:
        """Whether the last quarter has no more than the measure allows."""
        return self.share <= MEASURES[self.measure].limit


def find_growth(samples: Iterable[Sample], duration_s: float) -> list[Growth]:
    """Compare quarters of the processes that lived through both; none where a quarter has too few samples."""
    lives: dict[tuple[str, int], list[Sample]] = {}
    for sample in samples:
        lives.setdefault((sample.process, sample.pid), []).append(sample)
    growth = []
    for (process, _), life in sorted(lives.items()):
        parts = [_between(life, duration_s, quarter) for quarter in (2, 3)]
        if min(map(len, parts)) >= ENOUGH:
            growth += [
                Growth(process, name, *(measure.typical([getattr(one, name) for one in part]) for part in parts))
                for name, measure in MEASURES.items()
            ]
    return growth


def _between(life: Sequence[Sample], duration_s: float, quarter: int) -> list[Sample]:
    begin_s = duration_s * QUARTER * quarter
    return [sample for sample in life if begin_s <= sample.at_s < begin_s + duration_s * QUARTER]


def _mib(text: str) -> float:
    return int(text.split(maxsplit=1)[0]) / 1024
