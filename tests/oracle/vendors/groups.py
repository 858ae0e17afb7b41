"""Cards that belong together: on one network, on one board (vendors 4.8, 4.13)."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from oracle.vendors.family import Taken
from oracle.vendors.records import Device


def fill_groups(taken: Taken, nums: int, group_of: Callable[[Device], Hashable]) -> Taken:
    """Take cards from the largest group on; of equal groups the one whose first card was collected first.

    One card of several is the first collected, and exactly as many as are wanted stay in their order.
    """
    if nums in {1, len(taken)}:
        return taken[:nums]
    groups: dict[Hashable, Taken] = {}
    for device, share in taken:
        groups.setdefault(group_of(device), []).append((device, share))
    ordered = sorted(groups.values(), key=len, reverse=True)
    return [one for group in ordered for one in group][:nums]


def largest_share(groups: Sequence[Hashable]) -> float:
    """Return how large a part of some cards the largest group is."""
    return max(Counter(groups).values()) / len(groups)
