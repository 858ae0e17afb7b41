"""With how much less of its card's memory or cores a pod would fit: what its author can change. All is tried.

Only of pods of which one container asks for cards, of cards that are not divided, and where a card gives what is asked.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from msgspec.structs import replace

from gpuloom.engine.explanation.cores import unit_of_cores
from gpuloom.engine.explanation.hosts import suggest
from gpuloom.engine.explanation.node_fork import Question, Steps, count_fitting
from gpuloom.engine.explanation.rule_matrix import RuleMatrix
from gpuloom.engine.filtering.rules import Compares, NeededChange, Rule
from gpuloom.model.cards import UNDIVIDED, Ints
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request

_MOST_TRIED = 2


def find_less(question: Question) -> Steps:
    """Look for the most memory, and for the most cores, with which the pod would fit."""
    matrix, profile, asked = question.matrix, question.scheduler.profile, question.demand.requests
    if len(asked) > 1 or profile.fit.need:
        return ()
    ((place, request),) = asked.items()
    cards, required = matrix.cards, matrix.required
    free = cards.total_memory_mib - cards.used_memory_mib
    less_memory = [
        ({place: replace(request, memory_mib=mib, memory_percentage=PERCENTAGE_NOT_SET)}, f"{mib:,} MiB at most")
        for mib in _most_there(matrix, _looks_at_memory, free, required.memory_mib)
    ]
    found = yield from try_asking(question, less_memory)
    if unit_of_cores(profile) != "%":
        return found
    free = cards.total_cores - cards.used_cores
    less_cores = [
        ({place: replace(request, cores=cores)}, f"{cores} % of the cores at most")
        for cores in _most_there(matrix, _looks_at_cores, free, np.broadcast_to(required.cores, free.shape))
    ]
    return found + (yield from try_asking(question, less_cores))


def _looks_at_memory(rule: Rule) -> bool:
    return rule.change is NeededChange.MORE_MEMORY


def _looks_at_cores(rule: Rule) -> bool:
    """Tell whether less cores may help: who asks for all of them is refused because others are on the card, too."""
    return rule.change is NeededChange.MORE_CORES or rule.compares is Compares.CONTAINERS


def _most_there(matrix: RuleMatrix, may_help: Callable[[Rule], bool], free: Ints, wanted: Ints) -> list[int]:
    """Give what each of as many cards of a node as are needed has free, most first; less than is wanted.

    may_help  tells which rules may let a card pass that is asked for less
    """
    is_open = (matrix.bits >= 0) & ((matrix.bits & ~matrix.bits_of(may_help)) == 0)
    rows = np.flatnonzero(is_open & (matrix.cards.division == UNDIVIDED) & (free > 0))
    last = rows[matrix.find_last(rows, -free[rows], np.maximum(matrix.needs(), 1))]
    amounts: list[int] = np.unique(free[last[free[last] < wanted[last]]]).tolist()
    return amounts[: -_MOST_TRIED - 1 : -1]


def try_asking(question: Question, trials: Iterable[tuple[Mapping[int, Request], str]]) -> Steps:
    """Ask for room with other requests, which are told in words, and say of the first that find some where."""
    for requests, words in trials:
        demand = question.demand.with_requests(requests)
        decision = yield from question.decide(demand, question.headroom)
        if decision.node is not None:
            return (suggest("requests", decision.node, (yield from count_fitting(decision)), f"with {words}"),)
    return ()
