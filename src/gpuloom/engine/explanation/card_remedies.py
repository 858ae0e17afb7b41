"""What would have to change for a pod to fit. Every change that is named was tried on a copy of one node.

Found are single changes: more of one thing free, a card healthy or open again, an annotation or a quota less, some pods
less. The search is bounded, so what it does not find may exist all the same.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from gpuloom.engine.explanation.asking_less import find_less
from gpuloom.engine.explanation.cores import asked_in_per_cent
from gpuloom.engine.explanation.counting import tell_count
from gpuloom.engine.explanation.fewer_cards import find_fewer_cards
from gpuloom.engine.explanation.gaps import (
    TRIES_PER_CHECK,
    Change,
    Gap,
    find_gaps,
    fits_once_changed,
    only_blocked,
)
from gpuloom.engine.explanation.node_fork import Question, Steps
from gpuloom.engine.explanation.pod_remedies import find_annotations, find_quota
from gpuloom.engine.explanation.removals import find_removals
from gpuloom.engine.explanation.rule_matrix import NamedRule, RuleMatrix
from gpuloom.engine.explanation.values import Remedy
from gpuloom.engine.filtering.rules import NeededChange
from gpuloom.model.cards import Cards, Ints

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


_Helped = tuple[Gap, Sequence[int]]
"""A gap, and the rows of the cards on which the pod fits without it, as tried."""


def _more(
    question: Question,
    check: NamedRule,
    *,
    used: str,
    total: str,
    amount: str,
    asked: str = "",
    tell: Callable[[RuleMatrix, Gap], int] = lambda _matrix, gap: gap.amount,
) -> Steps:
    """Look for how much more of a card would have to be free; columns by their names.

    amount  how much that is, in words; ``tell`` says it in their unit
    asked   what is asked for; where there is no such column it is one
    """
    matrix = question.matrix
    in_use, there_is = getattr(matrix.cards, used), getattr(matrix.cards, total)

    def free(cards: Cards, changed: Ints, more: int) -> None:
        held = getattr(cards, used)
        held[changed] = np.maximum(held[changed] - more, 0)

    lacking = [
        np.broadcast_to(getattr(required, asked) if asked else 1, in_use.shape) - there_is + in_use
        for required in question.requirements()
    ]
    gaps = yield from find_gaps(question, check, lacking, in_use, free)
    helped = yield from _try_out(question, gaps, free)
    if not helped:
        return ()
    gap, few = helped[0]
    models = {matrix.table.kinds[kind][0] for kind in matrix.cards.kind[few].tolist()}
    model = models.pop() if len(models) == 1 else ""
    words = f"{amount.format(tell(matrix, gap))} were free on {{}}"
    return (_suggest(matrix, check, helped, words, gap.amount, model),)


def _tell_cores(matrix: RuleMatrix, gap: Gap) -> int:
    total = matrix.cards.total_cores[[gap.rows[gap.cards - 1]]]
    return int(asked_in_per_cent(matrix.profile, np.array([gap.amount]), total)[0])


def _set(question: Question, check: NamedRule, *, column: str, value: int, words: str) -> Steps:
    """Look for cards that would do if they were otherwise; nothing is told of other nodes than the first."""
    rows = only_blocked(question, check)
    nodes, names = question.matrix.cards.node[rows], question.matrix.table.names
    gaps = (
        Gap(names[node], 0, int(question.missing[node]), rows[nodes == node].tolist(), alike=(node,))
        for node in list(dict.fromkeys(nodes.tolist()))[:TRIES_PER_CHECK]
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


def _try_out(question: Question, gaps: Iterable[Gap], change: Change) -> Generator[None, None, Sequence[_Helped]]:
    """Return the first node where a change helps, and those after it that need as much, so that they can be named."""
    helped: list[_Helped] = []
    for gap in gaps:
        if helped and gap.alike != helped[0][0].alike:
            break
        if few := (yield from _find_few(question, gap, change)):
            helped.append((gap, few))
    return helped


def _find_few(question: Question, gap: Gap, change: Change) -> Generator[None, None, Sequence[int]]:
    """Return few cards of which a change lets the pod fit, none where not even of all; a trial between two steps."""
    rows = gap.rows

    def helps(tried: Sequence[int]) -> bool:
        return fits_once_changed(question, gap.node, change, tried, gap.amount)

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
