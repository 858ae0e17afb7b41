"""How many pods like this one there is room for.

Where the column of cards says everything, cards are filled in rounds by the very rules that decide; otherwise pods are
placed one by one on copies of nodes, up to a limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from gpuloom.engine.decider import Decider
from gpuloom.engine.decision import Decision
from gpuloom.engine.demand import Demand
from gpuloom.engine.explanation.details import in_order_of_placing
from gpuloom.engine.explanation.imagining import imagine
from gpuloom.engine.explanation.picture import freeze, take_picture
from gpuloom.engine.ledger import Reservation, Standing
from gpuloom.engine.table import NOBODY
from gpuloom.engine.usage import collapse, sum_for_quota
from gpuloom.model.cards import UNDIVIDED, Ints
from gpuloom.model.request import Request
from gpuloom.model.want import Headroom
from gpuloom.vendors.profile import Profile

MOST_PLACED = 100
_MOST_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class Room:
    """So many pods fit; ``is_least``: counting stopped there. ``by_node``: nodes with room, most first."""

    pods: int
    is_least: bool
    by_node: tuple[tuple[str, int], ...]


def count_room(decider: Decider, demand: Demand, decision: Decision, headroom: Headroom) -> Room:
    """Count how many such pods fit beside what is there; ``decision`` is about one of them."""
    request = _only_request(demand)
    divided = bool((decider.cluster.table.cards.division != UNDIVIDED).any())
    names = [name for name, _ in decision.fitting.worst_first()[::-1]]
    alone = not (divided or demand.choice.numa_bind or decider.family.is_hooked)
    if request is not None and alone and headroom == Headroom():
        return _fill(decider, demand, request, set(names))
    return _place(decider, demand, names, headroom)


def share_room(rooms: Sequence[Room]) -> Room:
    """Return the room for pods that need something of every one of some vendors, of whose cards these are the rooms."""
    if len(rooms) == 1:
        return rooms[0]
    by_vendor = [dict(room.by_node) for room in rooms]
    names = set.intersection(*(set(one) for one in by_vendor))
    by_node = {name: min(one[name] for one in by_vendor) for name in names}
    order = sorted(by_node.items(), key=lambda item: (-item[1], item[0]))
    return Room(sum(by_node.values()), any(room.is_least for room in rooms), tuple(order))


def _only_request(demand: Demand) -> Request | None:
    places = in_order_of_placing(demand)
    return demand.containers[places[0]].request if len(places) == 1 else None


def _fill(decider: Decider, demand: Demand, request: Request, names: set[str]) -> Room:
    table = freeze(decider.cluster.table)
    cards = table.cards
    times: Ints = np.zeros(len(cards), np.int64)
    for _ in range(_MOST_ROUNDS):
        picture = take_picture(decider, table, demand, request, Headroom())
        fits = picture.bits == 0
        if not fits.any():
            break
        times += fits
        cards.used_slots[fits] += 1
        cards.used_memory_mib[fits] += picture.want.memory_mib[fits]
        cards.used_cores[fits] += picture.want.cores
    by_node = {}
    for name in names:
        position = table.positions.get(name, NOBODY)
        pods = _most_pods(times[table.rows_of(position)], request.cards)
        if pods:
            by_node[name] = pods
    order = sorted(by_node.items(), key=lambda item: (-item[1], item[0]))
    return Room(sum(by_node.values()), bool(times.max(initial=0) >= _MOST_ROUNDS), tuple(order))


def _most_pods(times: Ints, cards: int) -> int:
    """Return how many pods can have so many different cards each, where cards serve so many times."""
    pods = int(times.sum()) // cards
    while pods and int(np.minimum(times, pods).sum()) < pods * cards:
        pods = int(np.minimum(times, pods).sum()) // cards
    return pods


def _place(decider: Decider, demand: Demand, names: list[str], headroom: Headroom) -> Room:
    by_node: dict[str, int] = {}
    total = 0
    for name in names:
        node = imagine(decider, name, headroom)
        for number in count():
            decision = node.decide(demand, headroom)
            if decision.node is None or total >= MOST_PLACED:
                break
            node.come(_reserve(demand, decision, node.decider.profile.word, number, name))
            headroom = _less(headroom, demand, decision, decider.profile)
            by_node[name] = by_node.get(name, 0) + 1
            total += 1
        if total >= MOST_PLACED:
            break
    order = sorted(by_node.items(), key=lambda item: (-item[1], item[0]))
    return Room(total, total >= MOST_PLACED, tuple(order))


def _less(headroom: Headroom, demand: Demand, decision: Decision, profile: Profile) -> Headroom:
    if headroom == Headroom():
        return headroom
    held = sum_for_quota(collapse(decision.shares, demand.phases).values(), bits=profile.fit.bits)
    return Headroom(headroom.memory_mib - held.memory_mib, headroom.cores - held.cores)


def _reserve(demand: Demand, decision: Decision, vendor: str, number: int, node: str) -> Reservation:
    return Reservation(
        uid=f"imagined-{number}",
        namespace=demand.namespace,
        name=demand.name,
        node=node,
        shares={vendor: decision.shares},
        instances=decision.instances,
        phases=demand.phases,
        standing=Standing.ASSUMED,
        since=0.0,
    )
