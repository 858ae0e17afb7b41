"""With how many cards a pod would fit that asks for too many of one node: one container at a time. All is tried."""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from gpuloom.engine.explanation.asking_less import try_asking
from gpuloom.engine.explanation.counting import tell_count
from gpuloom.engine.explanation.node_fork import Question, Steps
from gpuloom.engine.explanation.obstacle import in_order_of_placing
from gpuloom.engine.explanation.values import Remedy
from gpuloom.engine.request.demand import Demand
from gpuloom.model.cards import UNDIVIDED

_MOST_CONTAINERS = 4
_MOST_PARTS = 16
"""A divided card may serve a container so often, and has fewer parts."""


def find_fewer_cards(question: Question) -> Steps:
    """Look for the most cards with which the pod would fit, by container."""
    demand, most = question.demand, _count_most_cards(question)
    places = in_order_of_placing(demand)
    asked = {place: _cards_of(demand, place) for place in places}
    found: list[Remedy] = []
    for place in sorted((place for place in places if asked[place] > 1), key=lambda place: -asked[place]):
        counts = _list_fewer(question, min(asked[place] - 1, most))
        name = demand.containers[place].name
        told = yield from _find_most(question, place, counts, f" for container {name}" if len(places) > 1 else "")
        found.extend(told)
        if len(found) == _MOST_CONTAINERS:
            break
    return tuple(found)


def _cards_of(demand: Demand, place: int) -> int:
    request = demand.containers[place].request
    return 0 if request is None else request.cards


def _count_most_cards(question: Question) -> int:
    """Count what a container gets of one node at most, whoever is on its cards."""
    matrix = question.matrix
    gives = np.where(matrix.cards.division == UNDIVIDED, 1, np.maximum(matrix.cards.count, _MOST_PARTS))
    by_node = np.bincount(matrix.cards.node, gives, minlength=len(matrix.table.names))
    positions = [matrix.table.positions[name] for name in question.nodes if name in matrix.table.positions]
    return int(by_node[positions].max(initial=0))


def _list_fewer(question: Question, most: int) -> Sequence[int]:
    """List how many cards a container may ask for, most first: of those that come in pairs, whole pairs."""
    step = 2 if question.scheduler.profile.traits.in_pairs else 1
    return range(most - most % step, 0, -step)


def _find_most(question: Question, place: int, counts: Sequence[int], whose: str) -> Steps:
    """Find the largest number that does; of a pod that does not fit with the smallest no other is tried."""
    fewest = yield from _try(question, place, counts[-1:], whose)
    if not fewest:
        return ()
    return (yield from _try(question, place, counts[:-1], whose)) or fewest


def _try(question: Question, place: int, counts: Iterable[int], whose: str) -> Steps:
    """Say of the first of these numbers that does where it would."""
    for count in counts:
        demand = _ask_for(question.demand, place, count)
        # Pods of several containers are tried node by node, which would take too long in one step.
        yield from question.scheduler.place_ahead(demand, question.headroom)
        yield
        if told := (yield from try_asking(question, demand, f"{tell_count(count, 'card')} at most{whose}")):
            return (told,)
    return ()


def _ask_for(demand: Demand, place: int, cards: int) -> Demand:
    """Return the demand as if one container asked for so many cards."""
    containers = list(demand.containers)
    request = containers[place].request
    if request is not None:
        fewer = msgspec.structs.replace(request, cards=cards)
        containers[place] = msgspec.structs.replace(containers[place], request=fewer)
    return msgspec.structs.replace(demand, containers=tuple(containers))
