"""How well each pair of cards is connected, as a number (device plugin 9). Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpuloom.node.nvml import Ancestor, Gpu, Interconnect, normalize_bus_id

_ANCESTOR_SCORES: Mapping[Ancestor, int] = {
    Ancestor.SYSTEM: 10,
    Ancestor.NODE: 20,
    Ancestor.HOSTBRIDGE: 30,
    Ancestor.MULTIPLE: 40,
    Ancestor.SINGLE: 50,
    Ancestor.INTERNAL: 60,
}
_LINK_SCORE = 100
_MOST_LINKS = 18

PairScores = Mapping[str, Mapping[str, int]]
"""For every card by UUID: the score of each other card by UUID."""


@dataclass(frozen=True, slots=True)
class Asymmetry:
    """Two cards that do not see the same number of links between them; they score 0."""

    one: Gpu
    other: Gpu
    links: int
    links_back: int


def score_pairs(gpus: Sequence[Gpu], interconnect: Interconnect) -> tuple[PairScores, tuple[Asymmetry, ...]]:
    """Return the score of every pair of cards in both directions: PCIe ancestor plus 100 per NVLink."""
    scores: dict[str, dict[str, int]] = {gpu.uuid: {} for gpu in gpus}
    asymmetries = []
    for one, other in combinations(gpus, 2):
        links = _count_direct(one, other, interconnect)
        links_back = _count_direct(other, one, interconnect)
        if links != links_back:
            asymmetries.append(Asymmetry(one, other, links, links_back))
            scores[one.uuid][other.uuid] = scores[other.uuid][one.uuid] = 0
            continue
        for start, end in ((one, other), (other, one)):
            scores[start.uuid][end.uuid] = _score(start, end, links, interconnect)
    return scores, tuple(asymmetries)


def _score(one: Gpu, other: Gpu, direct: int, interconnect: Interconnect) -> int:
    links = direct or _count_switched(one, other, interconnect)
    ancestor = interconnect.ancestors[one.uuid, other.uuid]
    return _ANCESTOR_SCORES[ancestor] + (_LINK_SCORE * links if links <= _MOST_LINKS else 0)


def _count_direct(one: Gpu, other: Gpu, interconnect: Interconnect) -> int:
    address = normalize_bus_id(other.pci_bus_id)
    return sum(normalize_bus_id(link.remote_bus_id) == address for link in interconnect.links[one.uuid])


def _count_switched(one: Gpu, other: Gpu, interconnect: Interconnect) -> int:
    return min(sum(link.to_switch for link in interconnect.links[gpu.uuid]) for gpu in (one, other))
