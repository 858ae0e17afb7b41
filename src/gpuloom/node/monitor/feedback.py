"""Who must wait for whom on a card, and whose limits count (device plugin 16.2). Pure.

Containers that ran kernels lately are active. An active container blocks those of lower priority (a higher number) on
its cards. Limits on cores count only where another container gains from them. A container itself says that it is
active; cards and priority must come from elsewhere (trust T-06).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_BLOCKED = -1
_MOST_RECENT = 2
"""HAMi-core writes this with each kernel. A larger number would mean activity that lasts."""


@dataclass(frozen=True, slots=True)
class Activity:
    """A container. ``recent`` is from its region: it counts down to 0 without kernels and is negative while blocked."""

    recent: int
    priority: int
    cards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RegionUpdate:
    """What the region shall say from now on."""

    recent: int
    switch: int


Crowd = Mapping[str, Mapping[int, int]]
"""Card to priority to how many active containers."""


def judge(activities: Sequence[Activity]) -> tuple[RegionUpdate, ...]:
    """Give a verdict for each container of the node, in their order."""
    aged = [_age(activity.recent) for activity in activities]
    crowd = _count(activity for activity, recent in zip(activities, aged, strict=True) if recent > 0)
    return tuple(_judge_one(activity, recent, crowd) for activity, recent in zip(activities, aged, strict=True))


def release(activity: Activity) -> RegionUpdate:
    """Say what the region shall say when nobody judges any more: not blocked, and limits on cores count."""
    return RegionUpdate(max(activity.recent, 0), switch=1)


def _age(recent: int) -> int:
    return min(recent, _MOST_RECENT) - 1 if recent > 0 else recent


def _count(active: Iterable[Activity]) -> Crowd:
    crowd: dict[str, Counter[int]] = {}
    for activity in active:
        if activity.priority >= 0:
            for card in activity.cards:
                crowd.setdefault(card, Counter())[activity.priority] += 1
    return crowd


def _judge_one(activity: Activity, recent: int, crowd: Crowd) -> RegionUpdate:
    crowds = [crowd[card] for card in activity.cards if card in crowd]
    blocked = any(priority < activity.priority for one in crowds for priority in one)
    contended = blocked or any(one.get(activity.priority, 0) > 1 for one in crowds)
    if blocked and recent >= 0:
        recent = _BLOCKED
    elif not blocked and recent < 0:
        recent = 0
    return RegionUpdate(recent, switch=int(contended))
