"""Which of the collected cards belong together: topology-aware selection (scheduler 6.7, B-10)."""

from collections.abc import Sequence
from itertools import combinations

from oracle.device import DeviceUsage


def pair_score(one: DeviceUsage, other: DeviceUsage) -> int:
    """Return how well ``one`` says it is linked to ``other``; instances of the same card count nothing."""
    return 0 if one.card.id == other.card.id else one.card.pair_scores.get(other.card.id, 0)


def select_cards(groups: Sequence[Sequence[DeviceUsage]], nums: int) -> tuple[int, tuple[int, ...]] | None:
    """Choose ``nums`` cards out of one group: its position and the cards' positions, in walk order.

    Without NUMA binding there is one group. Returns None when no group has enough cards.
    """
    best: tuple[int, int, tuple[int, ...]] | None = None
    for which, group in enumerate(groups):
        if len(group) >= nums:
            merit, chosen = _select_in_group(group, nums)
            if best is None or merit > best[0]:
                best = merit, which, chosen
    return None if best is None else best[1:]


def _select_in_group(group: Sequence[DeviceUsage], nums: int) -> tuple[int, tuple[int, ...]]:
    """Return merit (higher is better) and positions. One card: the one that the others miss least."""
    if nums == 1:
        lowest = min(range(len(group)), key=lambda at: _sum_to_others(group, at))
        return -_sum_to_others(group, lowest), (lowest,)
    highest = max(combinations(range(len(group)), nums), key=lambda chosen: _total(group, chosen))
    return _total(group, highest), highest


def _sum_to_others(group: Sequence[DeviceUsage], at: int) -> int:
    return sum(pair_score(group[at], other) for position, other in enumerate(group) if position != at)


def _total(group: Sequence[DeviceUsage], chosen: Sequence[int]) -> int:
    return sum(pair_score(group[one], group[other]) for one, other in combinations(chosen, 2))
