"""Preemption in plain Python: every set of pods that could leave is tried, and the best one that helps is taken."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class PlainCard:
    """A card."""

    slots: int
    memory: int


@dataclass(frozen=True)
class PlainPod:
    """A pod that holds so much memory and a slot on each of some cards of one node."""

    uid: str
    cards: tuple[int, ...]
    memory: int
    priority: int
    started: int
    budgets: tuple[str, ...] = ()
    may_leave: bool = True
    is_leaving: bool = False


@dataclass(frozen=True)
class Wish:
    """So many different cards, so much memory on each."""

    cards: int
    memory: int
    priority: int


PlainNode = tuple[Sequence[PlainCard], Sequence[PlainPod]]


def fits(cards: Sequence[PlainCard], pods: Sequence[PlainPod], wish: Wish) -> bool:
    """Tell whether enough cards have a slot and memory left."""
    free = 0
    for number, card in enumerate(cards):
        on_it = [pod for pod in pods if number in pod.cards]
        free += len(on_it) < card.slots and card.memory - sum(pod.memory for pod in on_it) >= wish.memory
    return free >= wish.cards


def best_victims(node: PlainNode, wish: Wish, allowed: Mapping[str, int]) -> frozenset[str] | None:
    """Return the UIDs of the best set of victims on one node, None if no set helps.

    The best set is the one that keeps the most important pod that can be kept, then the next, and so on, those that a
    budget protects before all others.
    """
    cards, pods = node
    staying = [pod for pod in pods if not pod.is_leaving]
    if len(staying) < len(pods) and fits(cards, staying, wish):
        return frozenset()
    lower = [pod for pod in staying if pod.may_leave and pod.priority < wish.priority]
    order = [*(protected := list(_protected(lower, allowed))), *sorted(set(lower) - set(protected), key=_importance)]
    best: tuple[bool, ...] | None = None
    for size in range(1, len(order) + 1):
        for victims in combinations(order, size):
            if fits(cards, [pod for pod in staying if pod not in victims], wish):
                kept = tuple(pod not in victims for pod in order)
                best = kept if best is None else max(best, kept)
    return None if best is None else frozenset(pod.uid for pod, is_kept in zip(order, best, strict=True) if not is_kept)


def price(node: PlainNode, victims: frozenset[str], wish: Wish, allowed: Mapping[str, int]) -> tuple[float, ...]:
    """Return what a set of victims costs, to compare nodes by: smaller is better."""
    pods = [pod for pod in node[1] if pod.uid in victims]
    if not pods:
        return (0,)
    lower = [pod for pod in node[1] if not pod.is_leaving and pod.may_leave and pod.priority < wish.priority]
    broken = len(victims & {pod.uid for pod in _protected(lower, allowed)})
    highest = max(pod.priority for pod in pods)
    earliest = min(pod.started for pod in pods if pod.priority == highest)
    # No victim at all is best, and each further victim costs more than any difference in priority.
    total = sum(pod.priority + 2**31 for pod in pods)
    return 1, broken, highest, total, len(pods), -earliest


def _protected(lower: Sequence[PlainPod], allowed: Mapping[str, int]) -> Iterator[PlainPod]:
    taken: dict[str, int] = {}
    for pod in sorted(lower, key=_importance):
        for budget in pod.budgets:
            taken[budget] = taken.get(budget, 0) + 1
        if any(taken[budget] > allowed.get(budget, 0) for budget in pod.budgets):
            yield pod


def _importance(pod: PlainPod) -> tuple[float, float, str]:
    return -pod.priority, pod.started, pod.uid
