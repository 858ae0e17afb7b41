"""With how much less of its card's memory or cores a pod would fit: what its author can change. All is tried.

Only of pods of which one container asks for cards, of cards that are not divided, and where a card gives what is asked.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from gpuloom.engine.explanation.cores import unit_of_cores
from gpuloom.engine.explanation.node_fork import Question, Steps
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
    for node, amount in _most_there(question, _blocked_by_memory(matrix), free, matrix.required.memory_mib):
        yield
        asked = msgspec.structs.replace(request, memory_mib=amount, memory_percentage=PERCENTAGE_NOT_SET)
        if _fits(question, node, asked):
            found.append(_tell(node, f"{amount:,} MiB"))
            break
    if unit_of_cores(profile) != "%":
        return tuple(found)
    wanted = np.broadcast_to(matrix.required.cores, free.shape)
    for node, amount in _most_there(question, _blocked_by_cores(matrix), cards.total_cores - cards.used_cores, wanted):
        yield
        if _fits(question, node, msgspec.structs.replace(request, cores=amount)):
            found.append(_tell(node, f"{amount} % of the cores"))
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


def _most_there(question: Question, cards: Flags, free: Ints, wanted: Ints) -> Iterator[tuple[str, int]]:
    """Give nodes with what each of as many of their cards as are needed has free, most first; less than is wanted."""
    matrix = question.matrix
    rows = np.flatnonzero(cards & (free > 0))
    order = rows[np.lexsort((-free[rows], matrix.cards.node[rows]))]
    places, first, count = np.unique(matrix.cards.node[order], return_index=True, return_counts=True)
    needs = np.maximum(matrix.needs()[places], 1)
    enough = count >= needs
    last = order[first[enough] + needs[enough] - 1]
    last = last[free[last] < wanted[last]]
    for row in last[np.lexsort((matrix.cards.node[last], -free[last]))].tolist()[:_MOST_TRIED]:
        name = matrix.table.names[int(matrix.cards.node[row])]
        if name in question.nodes:
            yield name, int(free[row])


def _fits(question: Question, node: str, request: Request) -> bool:
    containers = tuple(
        one if one.request is None else msgspec.structs.replace(one, request=request)
        for one in question.demand.containers
    )
    asked: Demand = msgspec.structs.replace(question.demand, containers=containers)
    return question.fork_node(node).fits(asked)


def _tell(node: str, amount: str) -> Remedy:
    return Remedy(change="requests", text=f"would fit on {node} with {amount} at most", nodes=(node,), node_count=1)
