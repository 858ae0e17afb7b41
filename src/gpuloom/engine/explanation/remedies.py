"""What would have to change for a pod to fit. Every change that is named was tried on a copy of one node.

Found are single changes: more of one thing free, a card healthy or open again, an annotation or a quota less, some pods
less. The search is bounded, so what it does not find may exist all the same.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpuloom.engine.explanation.asking_less import find_less
from gpuloom.engine.explanation.cores import asked_in_per_cent
from gpuloom.engine.explanation.counting import tell_count
from gpuloom.engine.explanation.fewer_cards import find_fewer_cards
from gpuloom.engine.explanation.leaving import find_leaving
from gpuloom.engine.explanation.node_fork import Question, Steps
from gpuloom.engine.explanation.pod_remedies import find_annotations, find_quota
from gpuloom.engine.explanation.rule_matrix import NamedRule, RuleMatrix
from gpuloom.engine.explanation.values import Remedy
from gpuloom.engine.filtering.rules import NeededChange
from gpuloom.engine.state.card_table import CardTable
from gpuloom.model.cards import Cards, Ints
from gpuloom.model.request_columns import RequestColumns

_TRIES_PER_CHECK = 2
_MOST_CARDS = 8
"""So many cards are named."""
_ACCOUNTED = "were not closed by a pod of which nobody can read what it holds"


def find_remedies(question: Question) -> Steps:
    """Look for changes, a trial between two steps."""
    found: list[Remedy] = []
    for check in question.matrix.checks:
        change = _CHANGES.get(check.rule.change)
        if change is not None:
            found.extend((yield from change(question, check)))
    found.extend((yield from find_annotations(question)))
    found.extend((yield from find_quota(question)))
    found.extend((yield from find_leaving(question)))
    found.extend((yield from find_less(question)))
    found.extend((yield from find_fewer_cards(question)))
    return tuple(found)


def _only_blocked(question: Question, check: NamedRule) -> Ints:
    """Return the rows of cards that this check alone rejects, on nodes where that is what is missing."""
    matrix = question.matrix
    only = matrix.bits == check.bit
    if check.rule.change is NeededChange.HEALTHY:
        # No repair helps a card of which pods hold what cannot be.
        only[matrix.table.find_faulty()] = False
    helped = matrix.count(only) >= question.missing
    return np.flatnonzero(only & helped[matrix.cards.node])


@dataclass(frozen=True, slots=True)
class _Gap:
    """What is missing on one node: so much on each of so many cards of a kind."""

    node: int
    amount: int
    cards: int
    row: int
    kind: int

    def is_like(self, other: "_Gap") -> bool:
        """Tell whether as much is missing on as many cards of the same kind."""
        return (self.amount, self.cards, self.kind) == (other.amount, other.cards, other.kind)


@dataclass(frozen=True, slots=True)
class _Helped:
    """A gap, and the cards on which the pod fits without it, as tried."""

    gap: _Gap
    uuids: Sequence[str]


def _smallest_gaps(question: Question, rows: Ints, gaps: Ints) -> list[_Gap]:
    """Work out per node what is missing at least, nearest nodes first."""
    cards, missing = question.matrix.cards, question.missing
    # Some rows were left out because nothing would make room on them: enough must be there still.
    last = question.matrix.find_last(rows, gaps, missing)
    at, nodes = rows[last], cards.node[rows[last]]
    columns = (column.tolist() for column in (nodes, gaps[last], missing[nodes], at, cards.kind[at]))
    return sorted(map(_Gap, *columns), key=lambda gap: (gap.amount, gap.cards, gap.node))


def _more(
    question: Question,
    check: NamedRule,
    *,
    used: str,
    total: str,
    asked: Callable[[RequestColumns], Ints | int],
    amount: str,
    tell: Callable[[RuleMatrix, _Gap], int] = lambda _matrix, gap: gap.amount,
) -> Steps:
    """Look for how much more of a card would have to be free; columns by their names.

    tell  how much a gap is in the unit of the words
    """
    matrix = question.matrix
    in_use, there_is = getattr(matrix.cards, used), getattr(matrix.cards, total)
    wanted = np.broadcast_to(asked(matrix.required), in_use.shape)
    rows = _only_blocked(question, check)
    rows = rows[wanted[rows] <= there_is[rows]]
    gaps = wanted[rows] - (there_is - in_use)[rows]
    nearest = _smallest_gaps(question, rows, gaps)[:_TRIES_PER_CHECK]
    by_row = dict(zip(rows.tolist(), gaps.tolist(), strict=True))
    helped: list[_Helped] = []
    for gap in nearest:
        # Others that need as much are tried too, so that they can be named.
        if helped and not helped[0].gap.is_like(gap):
            break
        near = [row for row in _rows(matrix, gap.node) if by_row.get(row, gap.amount + 1) <= gap.amount]
        uuids = [matrix.table.uuids[row] for row in sorted(near, key=by_row.__getitem__)]

        def free(cards: Cards, changed: Sequence[int], gap: _Gap = gap) -> None:
            held = getattr(cards, used)
            held[changed] = np.maximum(held[changed] - gap.amount, 0)

        found = yield from _find_few(question, matrix.table.names[gap.node], uuids, gap.cards, free)
        if found:
            helped.append(_Helped(gap, found))
    if not helped:
        return ()
    gap, names = helped[0].gap, tuple(matrix.table.names[one.gap.node] for one in helped)
    places = " or ".join(_name_cards(one.uuids, name) for one, name in zip(helped, names, strict=True))
    return (
        Remedy(
            change=check.name,
            text=f"fits if {amount.format(tell(matrix, gap))} were free on {places}",
            amount=gap.amount,
            model=_find_model(matrix.table, names[0], helped[0].uuids),
            nodes=names,
            node_count=len(names),
        ),
    )


def _find_model(table: CardTable, node: str, uuids: Sequence[str]) -> str:
    """Return the model of some cards, empty where they are of several."""
    rows = (table.row(node, uuid) for uuid in uuids)
    models = {table.kinds[int(table.cards.kind[row])][0] for row in rows if row is not None}
    return models.pop() if len(models) == 1 else ""


def _tell_cores(matrix: RuleMatrix, gap: _Gap) -> int:
    total = matrix.cards.total_cores[gap.row : gap.row + 1]
    return int(asked_in_per_cent(matrix.profile, np.array([gap.amount]), total)[0])


def _set(question: Question, check: NamedRule, column: str, value: int, words: str) -> Steps:
    matrix = question.matrix
    rows = _only_blocked(question, check)
    nodes, missing = list(dict.fromkeys(matrix.cards.node[rows].tolist())), question.missing

    def mend(cards: Cards, changed: Sequence[int]) -> None:
        getattr(cards, column)[changed] = value

    for node in nodes[:_TRIES_PER_CHECK]:
        name = matrix.table.names[node]
        uuids = [matrix.table.uuids[row] for row in rows.tolist() if matrix.cards.node[row] == node]
        found = yield from _find_few(question, name, uuids, int(missing[node]), mend)
        if found:
            return (
                Remedy(
                    change=check.name,
                    text=f"fits if {_name_cards(found, name)} {words}",
                    amount=len(found),
                    nodes=(name,),
                    node_count=1,
                ),
            )
    return ()


def _find_few(
    question: Question, node: str, uuids: Sequence[str], least: int, change: Callable[[Cards, Sequence[int]], None]
) -> Generator[None, None, Sequence[str]]:
    """Return few cards of which a change lets the pod fit, none where not even of all; a trial between two steps.

    uuids   of the cards in question, best first: at least so many
    change  changes rows of a copy of the node
    """

    def helps(tried: Sequence[str]) -> bool:
        imagined = question.fork_node(node)
        table = imagined.state.table
        rows = [table.row(node, uuid) for uuid in tried]
        change(table.cards, [row for row in rows if row is not None])
        return imagined.fits(question.demand)

    yield
    if helps(uuids[:least]):
        return uuids[:least]
    if least == len(uuids):
        return ()
    yield
    if not helps(uuids):
        return ()
    few = list(uuids)
    for uuid in reversed(uuids):
        if len(few) == least:
            break
        yield
        rest = [one for one in few if one != uuid]
        if helps(rest):
            few = rest
    return few


def _rows(matrix: RuleMatrix, node: int) -> range:
    rows = matrix.table.rows_of(node)
    return range(rows.start, rows.stop)


_CHANGES: Mapping[NeededChange, Callable[[Question, NamedRule], Steps]] = {
    NeededChange.HEALTHY: partial(_set, column="healthy", value=1, words="were healthy"),
    NeededChange.UNCORDON: partial(_set, column="cordoned", value=0, words="were opened again (gpuloom uncordon)"),
    NeededChange.ACCOUNT: partial(_set, column="cordoned", value=0, words=_ACCOUNTED),
    NeededChange.MORE_SLOTS: partial(
        _more, used="used_slots", total="count", asked=lambda _required: 1, amount="{} share more"
    ),
    NeededChange.MORE_MEMORY: partial(
        _more,
        used="used_memory_mib",
        total="total_memory_mib",
        asked=lambda required: required.memory_mib,
        amount="{:,} MiB more",
    ),
    NeededChange.MORE_CORES: partial(
        _more,
        used="used_cores",
        total="total_cores",
        asked=lambda required: required.cores,
        amount="{} % more of the cores",
        tell=_tell_cores,
    ),
}


def _name_cards(uuids: Sequence[str], node: str) -> str:
    """Name cards of a node, not all of very many."""
    if len(uuids) == 1:
        return f"card {uuids[0]} of {node}"
    named, more = uuids[:_MOST_CARDS], len(uuids) - _MOST_CARDS
    last = named[-1] if more <= 0 else tell_count(more, "other")
    before = named[:-1] if more <= 0 else named
    return f"cards {', '.join(before)} and {last} of {node}"
