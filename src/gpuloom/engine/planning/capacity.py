"""How many more pods like this one fit.

Where the column of cards says everything, cards are filled in rounds by the very rules that decide; otherwise pods are
placed one by one on copies of nodes, up to a limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.imagined import imagine_reservation
from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.explanation.node_fork import fork_node
from gpuloom.engine.explanation.rule_matrix import make_rule_matrix
from gpuloom.engine.planning.lone_request import find_lone_request
from gpuloom.engine.request.demand import Demand
from gpuloom.engine.state.card_table import NO_NODE
from gpuloom.engine.state.usage import collapse, sum_for_quota
from gpuloom.model.cards import Ints
from gpuloom.model.request import Request
from gpuloom.model.request_columns import Headroom
from gpuloom.vendors.profile import Profile

MOST_PLACED = 100
_MOST_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class Capacity:
    """So many pods fit; ``is_least``: counting stopped there. ``by_node``: nodes where any fit, most first."""

    pods: int
    is_least: bool
    by_node: tuple[tuple[str, int], ...]


NO_LIMITS: Mapping[str, int] = {}


def count_capacity(
    scheduler: VendorScheduler,
    demand: Demand,
    decision: Decision,
    headroom: Headroom,
    limits: Mapping[str, int] = NO_LIMITS,
) -> Capacity:
    """Count how many such pods fit beside what is there; ``decision`` is about one of them.

    ``limits`` are how many a node takes at most, whatever its cards allow; a node that is not in it has no limit.
    """
    request = find_lone_request(scheduler, demand)
    names = [name for name, _ in decision.fitting.worst_first()[::-1]]
    if request is not None and headroom == Headroom():
        return _fill(scheduler, demand, request, set(names), limits)
    return _place(scheduler, demand, names, headroom, limits)


def intersect_capacities(capacities: Sequence[Capacity]) -> Capacity:
    """Return the capacity for pods that need cards of several vendors, from the capacities by vendor."""
    if len(capacities) == 1:
        return capacities[0]
    by_vendor = [dict(capacity.by_node) for capacity in capacities]
    names = set.intersection(*(set(one) for one in by_vendor))
    by_node = {name: min(one[name] for one in by_vendor) for name in names}
    order = sorted(by_node.items(), key=lambda item: (-item[1], item[0]))
    return Capacity(sum(by_node.values()), any(capacity.is_least for capacity in capacities), tuple(order))


def _fill(
    scheduler: VendorScheduler, demand: Demand, request: Request, names: set[str], limits: Mapping[str, int]
) -> Capacity:
    table = scheduler.state.fork().table
    cards = table.cards
    times: Ints = np.zeros(len(cards), np.int64)
    for _ in range(_MOST_ROUNDS):
        matrix = make_rule_matrix(scheduler, table, demand, request, Headroom())
        fits = matrix.bits == 0
        if not fits.any():
            break
        times += fits
        cards.used_slots[fits] += 1
        cards.used_memory_mib[fits] += matrix.required.memory_mib[fits]
        cards.used_cores[fits] += matrix.required.cores
    by_node = {}
    is_least = False
    for name in names:
        position = table.positions.get(name, NO_NODE)
        pods = _most_pods(times[table.rows_of(position)], request.cards)
        limit = limits.get(name, pods)
        is_least |= pods <= limit and bool(times[table.rows_of(position)].max(initial=0) >= _MOST_ROUNDS)
        if min(pods, limit):
            by_node[name] = min(pods, limit)
    order = sorted(by_node.items(), key=lambda item: (-item[1], item[0]))
    return Capacity(sum(by_node.values()), is_least, tuple(order))


def _most_pods(times: Ints, cards: int) -> int:
    """Return how many pods can have so many different cards each, where cards serve so many times."""
    pods = int(times.sum()) // cards
    while pods and int(np.minimum(times, pods).sum()) < pods * cards:
        pods = int(np.minimum(times, pods).sum()) // cards
    return pods


def _place(
    scheduler: VendorScheduler, demand: Demand, names: list[str], headroom: Headroom, limits: Mapping[str, int]
) -> Capacity:
    by_node: dict[str, int] = {}
    total = 0
    for name in names:
        node = fork_node(scheduler, name, headroom)
        for number in count():
            decision = node.decide(demand, headroom)
            if decision.node is None or total >= MOST_PLACED or number >= limits.get(name, MOST_PLACED):
                break
            shares = {node.scheduler.profile.word: decision.shares}
            node.come(imagine_reservation(demand, name, shares, decision.instances, uid=f"imagined-{number}"))
            headroom = _less(headroom, demand, decision, scheduler.profile)
            by_node[name] = by_node.get(name, 0) + 1
            total += 1
        if total >= MOST_PLACED:
            break
    order = sorted(by_node.items(), key=lambda item: (-item[1], item[0]))
    return Capacity(total, total >= MOST_PLACED, tuple(order))


def _less(headroom: Headroom, demand: Demand, decision: Decision, profile: Profile) -> Headroom:
    if headroom == Headroom():
        return headroom
    held = sum_for_quota(collapse(decision.shares, demand.phases).values(), bits=profile.fit.bits)
    return Headroom(headroom.memory_mib - held.memory_mib, headroom.cores - held.cores)
