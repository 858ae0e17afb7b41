"""What became of attempts to make room, counted for metrics."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class PreemptionCounts:
    """Counts since the start of the process.

    attempts      refused pods for which room was looked for
    victims       pods that were evicted for others
    dropped       attempts and plans that came to nothing, by cause
    ended         nominations that are over, by cause
    bound_s       seconds from refusal to bound, summed over nominated pods that were bound
    """

    attempts: int = 0
    victims: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    bound_s: float = 0.0
