"""What would have to change for a pod to fit. Every change that is named was tried on a copy of one node.

Found are single changes: more of one thing free, a card healthy or open again, an annotation or a quota less, some pods
less. The search is bounded, so what it does not find may exist all the same.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpuloom.engine.explanation.asking_less import find_less
from gpuloom.engine.explanation.cores import asked_in_per_cent
from gpuloom.engine.explanation.counting import tell_count
from gpuloom.engine.explanation.fewer_cards import find_fewer_cards
from gpuloom.engine.explanation.node_fork import Question, Steps, fork_node
from gpuloom.engine.explanation.pod_remedies import find_annotations, find_quota
from gpuloom.engine.explanation.removals import find_removals
from gpuloom.engine.explanation.rule_matrix import NamedRule, RuleMatrix
from gpuloom.engine.explanation.values import Remedy
from gpuloom.engine.filtering.rules import NeededChange
from gpuloom.model.cards import Cards, Ints

_TRIES_PER_CHECK = 2
_MOST_CARDS = 8
"""So many cards are named."""
_ACCOUNTED = "{} were not closed by a pod of which nobody can read what it holds"


def find_remedies(question: Question) -> Steps:
    """Look for changes, a trial between two steps."""
    found: list[Remedy] = []
    for check in question.matrix.checks:
        change = _CHANGES.get(check.rule.change)
        if change is not None:
            found.extend((yield from change(question, check)))
    found.extend((yield from find_annotations(question)))
    found.extend((yield from find_quota(question)))
    found.extend((yield from find_removals(question)))
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
    """What is missing on one node: so much on each of so many cards.

    rows   of the cards in question, best first: at least so many
    alike  equal for nodes that are told together
    """

    node: str
    amount: int
    cards: int
    rows: Sequence[int]
    alike: tuple[int, ...]


_Helped = tuple[_Gap, Sequence[int]]
"""A gap, and the rows of the cards on which the pod fits without it, as tried."""
_Change = Callable[[Cards, Ints, int], None]
"""Changes some rows of a copy of a node; the number is how much was missing."""


def _more(
    question: Question,
    check: NamedRule,
    *,
    used: str,
    total: str,
    amount: str,
    asked: str = "",
    tell: Callable[[RuleMatrix, _Gap], int] = lambda _matrix, gap: gap.amount,
) -> Steps:
    """Look for how much more of a card would have to be free; columns by their names.

    amount  how much that is, in words; ``tell`` says it in their unit
    asked   what is asked for; where there is no such column it is one
    """
    matrix, rows = question.matrix, _only_blocked(question, check)
    in_use, there_is = getattr(matrix.cards, used), getattr(matrix.cards, total)
    wanted = np.broadcast_to(getattr(matrix.required, asked) if asked else 1, in_use.shape)
    rows = rows[wanted[rows] <= there_is[rows]]

    def free(cards: Cards, changed: Ints, more: int) -> None:
        held = getattr(cards, used)
        held[changed] = np.maximum(held[changed] - more, 0)

    helped = yield from _try_out(question, _smallest_gaps(question, rows, (wanted - there_is + in_use)[rows]), free)
    if not helped:
        return ()
    gap, few = helped[0]
    models = {matrix.table.kinds[kind][0] for kind in matrix.cards.kind[few].tolist()}
    model = models.pop() if len(models) == 1 else ""
    words = f"{amount.format(tell(matrix, gap))} were free on {{}}"
    return (_suggest(matrix, check, helped, words, gap.amount, model),)


def _smallest_gaps(question: Question, rows: Ints, gaps: Ints) -> list[_Gap]:
    """Work out on a few nodes what is missing at least, on the nearest ones."""
    cards, missing, names = question.matrix.cards, question.missing, question.matrix.table.names
    # Some rows were left out because nothing would make room on them: enough must be there still.
    last = question.matrix.find_last(rows, gaps, missing)
    nodes = cards.node[rows]
    order = np.lexsort((nodes[last], missing[nodes[last]], gaps[last]))[:_TRIES_PER_CHECK]
    found = []
    for at in last[order].tolist():
        node, amount, kind = int(nodes[at]), int(gaps[at]), int(cards.kind[rows[at]])
        near = np.flatnonzero((nodes == node) & (gaps <= amount))
        best, few = rows[near[np.argsort(gaps[near], kind="stable")]].tolist(), int(missing[node])
        found.append(_Gap(names[node], amount, few, best, alike=(amount, few, kind)))
    return found


def _tell_cores(matrix: RuleMatrix, gap: _Gap) -> int:
    total = matrix.cards.total_cores[[gap.rows[gap.cards - 1]]]
    return int(asked_in_per_cent(matrix.profile, np.array([gap.amount]), total)[0])


def _set(question: Question, check: NamedRule, *, column: str, value: int, words: str) -> Steps:
    """Look for cards that would do if they were otherwise; nothing is told of other nodes than the first."""
    rows = _only_blocked(question, check)
    nodes, names = question.matrix.cards.node[rows], question.matrix.table.names
    gaps = (
        _Gap(names[node], 0, int(question.missing[node]), rows[nodes == node].tolist(), alike=(node,))
        for node in list(dict.fromkeys(nodes.tolist()))[:_TRIES_PER_CHECK]
    )

    def mend(cards: Cards, changed: Ints, _amount: int) -> None:
        getattr(cards, column)[changed] = value

    helped = yield from _try_out(question, gaps, mend)
    return tuple(_suggest(question.matrix, check, helped, words, len(few)) for _, few in helped)


def _suggest(
    matrix: RuleMatrix, check: NamedRule, helped: Sequence[_Helped], words: str, amount: int, model: str = ""
) -> Remedy:
    """Say in words, without the cards, how cards would have to be."""
    nodes = tuple(gap.node for gap, _ in helped)
    cards = " or ".join(_name_cards([matrix.table.uuids[row] for row in few], gap.node) for gap, few in helped)
    text = f"fits if {words.format(cards)}"
    return Remedy(change=check.name, text=text, amount=amount, model=model, nodes=nodes, node_count=len(nodes))


def _try_out(question: Question, gaps: Iterable[_Gap], change: _Change) -> Generator[None, None, Sequence[_Helped]]:
    """Return the first node where a change helps, and those after it that need as much, so that they can be named."""
    helped: list[_Helped] = []
    for gap in gaps:
        if helped and gap.alike != helped[0][0].alike:
            break
        if few := (yield from _find_few(question, gap, change)):
            helped.append((gap, few))
    return helped


def _find_few(question: Question, gap: _Gap, change: _Change) -> Generator[None, None, Sequence[int]]:
    """Return few cards of which a change lets the pod fit, none where not even of all; a trial between two steps."""
    table, rows = question.matrix.table, gap.rows
    first = table.rows_of(table.positions[gap.node]).start

    def helps(tried: Sequence[int]) -> bool:
        # Where a node is alone its rows are the first.
        imagined = fork_node(question.scheduler, gap.node, question.headroom)
        change(imagined.state.table.cards, np.array(tried) - first, gap.amount)
        return imagined.fits(question.demand)

    yield
    if helps(rows[: gap.cards]):
        return rows[: gap.cards]
    if gap.cards == len(rows):
        return ()
    yield
    if not helps(rows):
        return ()
    few = list(rows)
    for row in reversed(rows):
        if len(few) == gap.cards:
            break
        yield
        rest = [one for one in few if one != row]
        if helps(rest):
            few = rest
    return few


_CHANGES: Mapping[NeededChange, Callable[[Question, NamedRule], Steps]] = {
    NeededChange.HEALTHY: partial(_set, column="healthy", value=1, words="{} were healthy"),
    NeededChange.UNCORDON: partial(_set, column="cordoned", value=0, words="{} were opened again (gpuloom uncordon)"),
    NeededChange.ACCOUNT: partial(_set, column="cordoned", value=0, words=_ACCOUNTED),
    NeededChange.MORE_SLOTS: partial(_more, used="used_slots", total="count", amount="{} share more"),
    NeededChange.MORE_MEMORY: partial(
        _more, used="used_memory_mib", total="total_memory_mib", asked="memory_mib", amount="{:,} MiB more"
    ),
    NeededChange.MORE_CORES: partial(
        _more,
        used="used_cores",
        total="total_cores",
        asked="cores",
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
