"""What is missing on the nodes that are nearest to taking a pod: so much more free on each of so many cards."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpuloom.engine.explanation.least import find_least
from gpuloom.engine.explanation.node_fork import Question, fork_node
from gpuloom.engine.explanation.rule_matrix import NamedRule
from gpuloom.engine.explanation.unfit_container import find_unfit_container
from gpuloom.engine.filtering.rules import NeededChange
from gpuloom.model.cards import Cards, Ints
from gpuloom.model.request_columns import UNLIMITED

TRIES_PER_CHECK = 2
"""So many nodes are looked at, the nearest ones."""


@dataclass(frozen=True, slots=True)
class Gap:
    """What is missing on one node: so much on each of so many cards.

    rows   of the cards in question, best first: at least so many
    alike  equal for nodes that are told together
    """

    node: str
    amount: int
    cards: int
    rows: Sequence[int]
    alike: tuple[int, ...]


Change = Callable[[Cards, Ints, int], None]
"""Changes some rows of a copy of a node; the number is how much was missing."""


def find_gaps(
    question: Question, check: NamedRule, lacking: Sequence[Ints], in_use: Ints, free: Change
) -> Generator[None, None, Sequence[Gap]]:
    """Find what is missing on a few nodes, the smallest gaps first.

    lacking  for each container by row, how much more of a card would have to be free of what ``in_use`` tells
    free     frees so much of some rows
    """
    if len(lacking) > 1:
        nodes = yield from _find_nearest(question, lacking, in_use)
        return (yield from _find_gaps_of_all(question, check, nodes, in_use, free))
    rows = only_blocked(question, check)
    rows = rows[lacking[0][rows] <= in_use[rows]]
    return _find_smallest_gaps(question, rows, lacking[0][rows])


def only_blocked(question: Question, check: NamedRule) -> Ints:
    """Return the rows of cards that this check alone rejects, on nodes where that is what is missing."""
    matrix = question.matrix
    only = matrix.bits == check.bit
    if check.rule.change is NeededChange.HEALTHY:
        # No repair helps a card of which pods hold what cannot be.
        only[matrix.table.find_faulty()] = False
    helped = matrix.count(only) >= question.missing
    return np.flatnonzero(only & helped[matrix.cards.node])


def _find_smallest_gaps(question: Question, rows: Ints, gaps: Ints) -> list[Gap]:
    """Work out on a few nodes what is missing at least, on the nearest ones."""
    cards, missing, names = question.matrix.cards, question.missing, question.matrix.table.names
    # Some rows were left out because nothing would make room on them: enough must be there still.
    last = question.matrix.find_last(rows, gaps, missing)
    nodes = cards.node[rows]
    order = np.lexsort((nodes[last], missing[nodes[last]], gaps[last]))[:TRIES_PER_CHECK]
    found = []
    for at in last[order].tolist():
        node, amount, kind = int(nodes[at]), int(gaps[at]), int(cards.kind[rows[at]])
        near = np.flatnonzero((nodes == node) & (gaps <= amount))
        best, few = rows[near[np.argsort(gaps[near], kind="stable")]].tolist(), int(missing[node])
        found.append(Gap(names[node], amount, few, best, alike=(amount, few, kind)))
    return found


def _find_nearest(question: Question, lacking: Sequence[Ints], in_use: Ints) -> Generator[None, None, list[int]]:
    """Find in steps the positions of a few nodes where each container lacks least and least is in use."""
    matrix, requests = question.matrix, question.demand.requests.values()
    may_serve = np.flatnonzero(
        (matrix.bits >= 0) & ((matrix.bits & matrix.bits_of(lambda one: one.outlasts_pods)) == 0)
    )
    most = np.zeros(len(matrix.table.names), np.int64)
    for request, lack in zip(requests, lacking, strict=True):
        yield
        rows = may_serve[lack[may_serve] <= in_use[may_serve]]
        last = rows[matrix.find_last(rows, lack[rows], matrix.needs(request.cards))]
        found = np.full(len(most), UNLIMITED)
        found[matrix.cards.node[last]] = np.maximum(lack[last], 0)
        most = np.maximum(most, found)
    held = np.bincount(matrix.cards.node[may_serve], in_use[may_serve], len(most))
    nodes = np.flatnonzero((most < UNLIMITED) & (held > 0))
    nearest: list[int] = nodes[np.lexsort((held[nodes], most[nodes]))][:TRIES_PER_CHECK].tolist()
    return nearest


def _find_gaps_of_all(
    question: Question, check: NamedRule, nodes: Sequence[int], in_use: Ints, change: Change
) -> Generator[None, None, Sequence[Gap]]:
    """Find out on nodes, by trying, what all containers together lack at least: where they go follows from that."""
    found: list[Gap] = []
    matrix = question.matrix
    for position in nodes:
        rows = np.arange(*matrix.table.rows_of(position).indices(len(in_use)))
        rows = rows[in_use[rows] > 0]
        rows = rows[np.argsort(in_use[rows], kind="stable")]
        name, most, tried = matrix.table.names[position], int(in_use[rows].max()), rows.tolist()
        is_enough = partial(fits_once_changed, question, name, change, tried)
        seen = yield from find_unfit_container(question.scheduler, name, question.demand, question.headroom)
        # What else keeps a container away is no matter of more of this.
        if seen is None or not (seen.bits == check.bit).any():
            continue
        yield
        if is_enough(most):
            amount = yield from find_least(is_enough, 1, most)
            found.append(Gap(name, amount, 1, tried, alike=(amount, int(matrix.cards.kind[rows[0]]))))
    return sorted(found, key=lambda gap: gap.amount)


def fits_once_changed(question: Question, node: str, change: Change, rows: Sequence[int], amount: int) -> bool:
    """Tell whether the pod fits on a node once some of its cards are changed."""
    table = question.matrix.table
    imagined = fork_node(question.scheduler, node, question.headroom)
    # Where a node is alone its rows are the first.
    change(imagined.state.table.cards, np.array(rows) - table.rows_of(table.positions[node]).start, amount)
    return imagined.fits(question.demand)
