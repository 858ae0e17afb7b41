"""With how many cards a pod would fit that asks for too many of one node: one container at a time. All is tried."""

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from gpuloom.engine.explanation.asking_less import try_asking
from gpuloom.engine.explanation.counting import tell_count
from gpuloom.engine.explanation.node_fork import Question, Steps
from gpuloom.engine.explanation.rule_matrix import RuleMatrix
from gpuloom.engine.explanation.values import Remedy
from gpuloom.model.cards import UNDIVIDED

_MOST_CONTAINERS = 4
_MOST_PARTS = 16
"""A divided card may serve a container so often, and has fewer parts."""


def find_fewer_cards(question: Question) -> Steps:
    """Look for the most cards with which the pod would fit, by container."""
    asked, most = question.demand.requests, _count_most_cards(question.matrix)
    found: list[Remedy] = []
    for container_index, request in sorted(asked.items(), key=lambda item: -item[1].cards):
        whose = f" for container {question.demand.containers[container_index].name}" if len(asked) > 1 else ""
        trials = [
            ({**asked, container_index: replace(request, cards=count)}, f"{tell_count(count, 'card')} at most{whose}")
            for count in _list_fewer(question, min(request.cards - 1, most))
        ]
        # Of a pod that does not fit with the fewest nothing else is tried.
        if fewest := (yield from try_asking(question, trials[-1:])):
            found.extend((yield from try_asking(question, trials[:-1])) or fewest)
        if len(found) == _MOST_CONTAINERS:
            break
    return tuple(found)


def _count_most_cards(matrix: RuleMatrix) -> int:
    """Count what a container gets of one node at most, whoever is on its cards."""
    gives = np.where(matrix.cards.division == UNDIVIDED, 1, np.maximum(matrix.cards.count, _MOST_PARTS))
    return int(np.bincount(matrix.cards.node, np.where(matrix.bits < 0, 0, gives)).max(initial=0))


def _list_fewer(question: Question, most: int) -> Sequence[int]:
    """List how many cards a container may ask for, most first: of those that come in pairs, whole pairs."""
    step = 2 if question.scheduler.profile.traits.in_pairs else 1
    return range(most - most % step, 0, -step)
