"""With how much less of its card's memory or cores a pod would fit: what its author can change. All is tried.

Only of pods of which one container asks for cards, of cards that are not divided, and where a card gives what is asked.
"""

from collections.abc import Generator

import msgspec
import numpy as np

from gpuloom.engine.explanation.cores import unit_of_cores
from gpuloom.engine.explanation.hosts import tell_one_of
from gpuloom.engine.explanation.node_fork import Question, Steps, count_fitting
from gpuloom.engine.explanation.obstacle import in_order_of_placing
from gpuloom.engine.explanation.rule_matrix import RuleMatrix
from gpuloom.engine.explanation.values import Remedy
from gpuloom.engine.filtering.rules import Compares, NeededChange
from gpuloom.engine.request.demand import Demand
from gpuloom.model.cards import UNDIVIDED, Flags, Ints
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request

_MOST_TRIED = 2


def find_less(question: Question) -> Steps:
    """Look for the most memory, and for the most cores, with which the pod would fit."""
    matrix, profile = question.matrix, question.scheduler.profile
    if len(in_order_of_placing(question.demand)) > 1 or profile.fit.need:
        return ()
    cards, request, found = matrix.cards, matrix.request, []
    free = cards.total_memory_mib - cards.used_memory_mib
    for amount in _most_there(question, _blocked_by_memory(matrix), free, matrix.required.memory_mib):
        yield
        asked = msgspec.structs.replace(request, memory_mib=amount, memory_percentage=PERCENTAGE_NOT_SET)
        if told := (yield from try_asking(question, _ask_for(question, asked), f"{amount:,} MiB at most")):
            found.append(told)
            break
    if unit_of_cores(profile) != "%":
        return tuple(found)
    wanted = np.broadcast_to(matrix.required.cores, free.shape)
    for amount in _most_there(question, _blocked_by_cores(matrix), cards.total_cores - cards.used_cores, wanted):
        yield
        asked = msgspec.structs.replace(request, cores=amount)
        if told := (yield from try_asking(question, _ask_for(question, asked), f"{amount} % of the cores at most")):
            found.append(told)
            break
    return tuple(found)


def _blocked_by_memory(matrix: RuleMatrix) -> Flags:
    return _blocked_by(matrix, sum(one.bit for one in matrix.checks if one.rule.change is NeededChange.MORE_MEMORY))


def _blocked_by_cores(matrix: RuleMatrix) -> Flags:
    """Tell which cards less cores may open; who asks for all of them is refused because others are on the card, too."""
    changes = (NeededChange.MORE_CORES,)
    named = (one for one in matrix.checks if one.rule.change in changes or one.rule.compares is Compares.CONTAINERS)
    return _blocked_by(matrix, sum(one.bit for one in named))


def _blocked_by(matrix: RuleMatrix, bits: int) -> Flags:
    """Tell which cards nothing else rejects."""
    return (matrix.bits >= 0) & ((matrix.bits & ~bits) == 0) & (matrix.cards.division == UNDIVIDED)


def _most_there(question: Question, cards: Flags, free: Ints, wanted: Ints) -> list[int]:
    """Give what each of as many cards of a node as are needed has free, most first; less than is wanted."""
    matrix = question.matrix
    is_open = np.array([name in question.nodes for name in matrix.table.names], bool)
    rows = np.flatnonzero(cards & (free > 0) & is_open[matrix.cards.node])
    order = rows[np.lexsort((-free[rows], matrix.cards.node[rows]))]
    places, first, count = np.unique(matrix.cards.node[order], return_index=True, return_counts=True)
    needs = np.maximum(matrix.needs()[places], 1)
    enough = count >= needs
    last = order[first[enough] + needs[enough] - 1]
    amounts: list[int] = np.unique(free[last[free[last] < wanted[last]]]).tolist()
    return amounts[: -_MOST_TRIED - 1 : -1]


def _ask_for(question: Question, request: Request) -> Demand:
    """Return the demand with another request of the only container."""
    containers = tuple(
        one if one.request is None else msgspec.structs.replace(one, request=request)
        for one in question.demand.containers
    )
    return msgspec.structs.replace(question.demand, containers=containers)


def try_asking(question: Question, demand: Demand, amount: str) -> Generator[None, None, Remedy | None]:
    """Ask for room with another demand, and say where there would be."""
    decision = question.decide(demand, question.headroom)
    if decision.node is None:
        return None
    fitting = yield from count_fitting(decision)
    text = f"would fit on {tell_one_of(decision.node, fitting)} with {amount}"
    return Remedy(change="requests", text=text, nodes=(decision.node,), node_count=fitting)
