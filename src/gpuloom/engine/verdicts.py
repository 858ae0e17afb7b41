"""Remembered verdicts: what the rules say about every card, by shape of request.

Pods come in few shapes. For each the verdict column is kept with a mark in the table's journal; the next decision asks
the same rules again, but only about nodes that changed since, and of those only the rules about usage. What follows
from the card alone all shapes have in common. That is a memory of answers, not another set of rules, and it makes a
decision independent of the size of the cluster.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuloom.engine.commonverdicts import CommonVerdicts
from gpuloom.engine.demand import Choice, Selection
from gpuloom.engine.family import Family
from gpuloom.engine.need import Particular, make_want
from gpuloom.engine.options import ScoreSlots
from gpuloom.engine.policies import SortKey, Weights
from gpuloom.engine.ranking import UNFIT
from gpuloom.engine.rules import Positions, combine, combine_one, judge, judge_one, select_mattering
from gpuloom.engine.scores import Scores, sort_key
from gpuloom.engine.table import CardTable
from gpuloom.engine.trials import Kind, Trials
from gpuloom.model.cards import Cards, Flags, Ints
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.request import Request
from gpuloom.model.want import Headroom, Want

MOST_SHAPES = 128
"""A shape takes about 140 KB at 5,000 nodes of eight cards, 460 KB if it asks by percentage."""
MOST_KINDS = 16
"""A kind takes up to 0.5 MB at 5,000 nodes."""
MOST_PASSING = 4
"""Kinds that are of use only until the pod in question is decided about."""
_MOST_COLUMNS = 4096
_MOST_NODES = 64
"""Decisions go to few nodes at a time, and what is remembered of a node is quickly found again."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Shape(msgspec.Struct, frozen=True, gc=False):
    """All that the verdict on a card depends on beside the card; never the pod."""

    request: Request
    selection: Selection
    mutex: bool
    headroom: Headroom
    spread: bool
    choice: Choice | None = None
    """How cards are chosen, where that changes what a node is worth."""


@dataclass(slots=True)
class _Refusals:
    """Refusals by position of the node; equal ones are one object, so that few texts are ever made."""

    by_node: dict[int, Refusal] = field(default_factory=dict)
    by_column: dict[bytes, Refusal] = field(default_factory=dict)
    by_counts: dict[tuple[tuple[int, int], ...], Refusal] = field(default_factory=dict)
    too_few_cards: Refusal = field(default_factory=lambda: refuse_node(Reason.NODE_INSUFFICIENT_DEVICE))


@dataclass(slots=True)
class _Judged:
    """A node's cards as they were judged one by one.

    lasting   what the rules about registered facts say
    verdicts  what all rules say
    """

    cards: list[Cards | None]
    lasting: list[int]
    verdicts: list[int]


class Verdicts:
    """The verdicts on all cards for one shape.

    column   by row, position of the first rule that rejects the card, 0 for none
    fitting  by position of the node, how many of its cards no rule rejects
    ranks    by position of the node, its score with the sign of the policy, UNFIT where too few cards fit
    refits   how many nodes were looked at so far, and ``looks`` at how many single cards of them
    """

    def __init__(self, shape: Shape, family: Family, score_slots: ScoreSlots, common: CommonVerdicts) -> None:
        self.shape = shape
        self._family = family
        self.column: Positions = np.zeros(0, np.uint8)
        self.fitting: NDArray[np.int32] = np.zeros(0, np.int32)
        self.ranks: Scores = np.zeros(0, np.float32)
        self.refits = 0
        self.looks = 0
        self._rules = family.rules
        self._common = common
        self._score_slots = score_slots
        self._want: Want
        self._wants: dict[int, list[Want]] = {}
        self._judged: dict[int, _Judged] = {}
        self._keyed: dict[tuple[int, tuple[SortKey, ...], Weights], list[tuple[Cards | None, tuple[Any, ...]]]] = {}
        self._asked: Sequence[tuple[int, Callable[[Cards, Want], Flags]]] = ()
        self._lasting: Positions | None = None
        self._refusals = _Refusals()
        self._registrations = -1
        self._mark = -1

    def refresh(self, table: CardTable) -> None:
        """Bring the verdicts up to date with the table."""
        changed = table.changed_since(self._mark, self._registrations)
        if changed is None:
            self._read_registered(table)
            self._judge_all(table)
        elif len(changed) > self._few(table):
            self._judge_all(table, changed)
        else:
            for position in changed:
                self._judge_node(table, position)
        self._mark = table.journal.mark

    def begin(self, table: CardTable) -> bool:
        """Bring the verdicts up to date as far as that is quick; tell whether :meth:`finish` has something left."""
        self.refresh(table)
        return False

    def finish(self, table: CardTable) -> Iterator[None]:  # noqa: ARG002 - families with hooks need it
        """Do what is left, step by step."""
        return iter(())

    def recall_given(self, position: int, rows: slice) -> tuple[Sequence[int], Want] | None:  # noqa: ARG002 - as finish
        """Return which of a node's cards such a pod gets and what each gives, None where that is not remembered."""
        return None

    def refuse(self, table: CardTable, positions: Ints) -> list[Refusal]:
        """Return why nodes cannot serve, counted from the column alone; equal refusals are one object."""
        known, by_column = self._refusals.by_node, self._refusals.by_column
        places = positions.tolist()
        missing = [position for position in places if position not in known]
        # Where nothing is known yet these are all nodes, and very few of them say anything new.
        column, at = self.column.tobytes(), np.fromiter(missing, np.int64, len(missing))
        for position, start, end in zip(missing, table.starts[at].tolist(), table.ends[at].tolist(), strict=True):
            said = by_column.get(column[start:end]) if end - start >= self.shape.request.cards else None
            known[position] = said or self._refuse(table, position)
        return [known[position] for position in places]

    def wants(self, position: int, rows: slice) -> list[Want]:
        """Return what the shape needs of a node's cards, one by one."""
        wants = self._wants.get(position)
        if wants is None:
            if len(self._wants) >= _MOST_NODES:
                self._wants.clear()
            wants = self._wants[position] = list(self._want.one_by_one(rows))
        return wants

    def sort_keys(
        self, table: CardTable, position: int, order: tuple[SortKey, ...], weights: Weights
    ) -> Sequence[tuple[Any, ...]]:
        """Return what each of a node's cards is tried by; only that of cards that changed is worked out anew."""
        cards, wants = table.cards_of(position), self.wants(position, table.rows_of(position))
        keyed = self._keyed.get((position, order, weights))
        if keyed is None or len(keyed) != len(cards):
            if len(self._keyed) >= _MOST_NODES:
                self._keyed.clear()
            keyed = self._keyed[position, order, weights] = [(None, ())] * len(cards)
        for at, card in enumerate(cards):
            if keyed[at][0] is not card:
                keyed[at] = card, sort_key(card, wants[at], order, weights, at)
        return [key for _, key in keyed]

    def _few(self, table: CardTable) -> int:
        """Return up to how many nodes that changed are looked at one by one."""
        return table.few

    def _read_registered(self, table: CardTable) -> None:
        """Work out anew what follows from what nodes registered, and forget what was remembered of them."""
        self._want = self._make_want(table)
        self._wants.clear()
        self._keyed.clear()
        self._judged.clear()
        self._refusals = _Refusals()
        mattering = select_mattering(self._rules.passing, self._want)
        self._asked = [(position, rule.rejects) for position, rule in mattering]
        self._lasting = self._judge_lasting(table)
        self._registrations = table.registrations

    def _judge_all(self, table: CardTable, changed: set[int] | None = None) -> None:
        """Judge all cards as columns; ``changed`` are the nodes that may be other than before, None for all."""
        self._common.refresh(table, self._want)
        said = self._common.column if self._lasting is None else combine(self._lasting, self._common.column)
        self.column = judge(table.cards, self._want, self._rules.asking, said)
        self._sum_up(table, changed)
        self.refits += len(table.positions)
        for position in changed or ():
            self._refusals.by_node.pop(position, None)

    def _judge_lasting(self, table: CardTable) -> Positions | None:
        """Return what the rules say that usage does not change, None where they reject no card."""
        rules = select_mattering(self._rules.lasting, self._want)
        return judge(table.cards, self._want, rules) if rules else None

    def _sum_up(self, table: CardTable, changed: set[int] | None) -> None:  # noqa: ARG002 - families with hooks need it
        """Work out for all nodes what follows from the column."""
        nodes = slice(len(table.names))
        self.fitting = table.add_up(self.column == 0, np.int32)
        scores = table.node_scores[nodes]
        enough = self.fitting >= self.shape.request.cards
        self.ranks = np.where(enough, -scores if self.shape.spread else scores, UNFIT)

    def _judge_node(self, table: CardTable, position: int) -> None:
        rows = table.rows_of(position)
        cards, wants = table.cards_of(position), self.wants(position, rows)
        judged = self._recall_judged(position, rows)
        for at, card in enumerate(cards):
            if card is not judged.cards[at]:
                verdict = combine_one(judged.lasting[at], judge_one(card, wants[at], self._asked))
                judged.cards[at], judged.verdicts[at] = card, verdict
                self.column[rows.start + at] = verdict
                self.looks += 1
        self.fitting[position] = fitting = judged.verdicts.count(0)
        score = -table.node_scores[position] if self.shape.spread else table.node_scores[position]
        self.ranks[position] = score if fitting >= self.shape.request.cards else UNFIT
        self.refits += 1
        self._refusals.by_node.pop(position, None)

    def _recall_judged(self, position: int, rows: slice) -> _Judged:
        """Return which of a node's cards were judged as they are, none at first."""
        judged = self._judged.get(position)
        if judged is None:
            if len(self._judged) >= _MOST_NODES:
                self._judged.clear()
            nobody: list[Cards | None] = [None] * (rows.stop - rows.start)
            lasting = [0] * len(nobody) if self._lasting is None else self._lasting[rows].tolist()
            judged = self._judged[position] = _Judged(nobody, lasting, lasting.copy())
        return judged

    def _make_want(self, table: CardTable) -> Want:
        shape = self.shape
        return make_want(
            table.cards,
            table.uuids,
            table.kinds,
            shape.request,
            shape.selection,
            mutex=shape.mutex,
            headroom=shape.headroom,
            score_slots=self._score_slots,
            divided=bool(table.partitions),
            particular=see_particular(self._family, table),
        )

    def _refuse(self, table: CardTable, position: int) -> Refusal:
        rows = table.rows_of(position)
        if self.shape.request.cards > rows.stop - rows.start and not self._may_divide(table, rows):
            return self._refusals.too_few_cards
        column = self.column[rows].tobytes()
        refusal = self._refusals.by_column.get(column)
        if refusal is None:
            if len(self._refusals.by_column) >= _MOST_COLUMNS:
                self._refusals.by_column.clear()
            refusal = self._refusals.by_column[column] = self._count(column)
        return refusal

    def _may_divide(self, table: CardTable, rows: slice) -> bool:
        return self.shape.selection.takes_instances and bool(table.cards.division[rows].any())

    def _count(self, column: bytes) -> Refusal:
        counts = tuple(sorted(Counter(column).items()))
        refusal = self._refusals.by_counts.get(counts)
        if refusal is None:
            by_reason: Counter[Reason] = Counter()
            for position, count in counts:
                fits = Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST
                by_reason[self._rules.reason(position) if position else fits] += count
            refusal = self._refusals.by_counts[counts] = Refusal(by_reason, len(column))
        return refusal


@dataclass(slots=True)
class VerdictMemory:
    """The verdicts of the shapes that were asked about last."""

    family: Family
    score_slots: ScoreSlots
    make: Callable[[Shape, Family, ScoreSlots, CommonVerdicts], Verdicts] = Verdicts
    _common: CommonVerdicts = field(init=False)
    _by_shape: OrderedDict[Shape, Verdicts] = field(default_factory=OrderedDict)
    _trials: OrderedDict[Kind, Trials] = field(default_factory=OrderedDict)
    _passing: OrderedDict[Kind, Trials] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self._common = CommonVerdicts(self.family.rules)

    def all(self) -> tuple[Verdicts, ...]:
        """Return what is remembered; the shape asked about last comes last."""
        return tuple(self._by_shape.values())

    def forget_all(self) -> None:
        """Forget everything; the next decisions look at all cards again."""
        self._by_shape.clear()
        self._trials.clear()
        self._passing.clear()
        self._common = CommonVerdicts(self.family.rules)

    def look(self, table: CardTable, shape: Shape, *, ranks: bool = True) -> Verdicts:
        """Return the verdicts for a shape without remembering them; see :meth:`recall`."""
        return _bring_up(self._make(shape), table, ranks=ranks)

    def recall(self, table: CardTable, shape: Shape, *, ranks: bool = True) -> Verdicts:
        """Return the verdicts for a shape, up to date; without ``ranks`` those of some nodes may be missing."""
        if shape.selection.names_uuids:
            # Whoever names cards is hardly followed by others who name the same.
            return self.look(table, shape, ranks=ranks)
        return _bring_up(self._find(shape), table, ranks=ranks)

    def begin(self, table: CardTable, shape: Shape) -> Iterator[None] | None:
        """Bring the verdicts for a shape up to date as far as that is quick; return the steps that are left, if any."""
        if shape.selection.names_uuids:
            return None
        verdicts = self._find(shape)
        return verdicts.finish(table) if verdicts.begin(table) else None

    def _find(self, shape: Shape) -> Verdicts:
        return _recall(self._by_shape, shape, MOST_SHAPES, lambda: self._make(shape))

    def _make(self, shape: Shape) -> Verdicts:
        return self.make(shape, self.family, self.score_slots, self._common)

    def recall_trials(self, table: CardTable, kind: Kind) -> Trials:
        """Return which nodes a kind of pod was tried on, as far as they did not change since."""
        memory, most = (self._passing, MOST_PASSING) if kind.is_passing else (self._trials, MOST_KINDS)
        trials = _recall(memory, kind, most, Trials)
        trials.refresh(table)
        return trials


def _bring_up(verdicts: Verdicts, table: CardTable, *, ranks: bool) -> Verdicts:
    """Bring verdicts up to date; ranks may take much longer than what they follow from."""
    if ranks:
        verdicts.refresh(table)
    else:
        verdicts.begin(table)
    return verdicts


def see_particular(family: Family, table: CardTable) -> Particular | None:
    """Return what the vendor does otherwise, None for nothing."""
    if not family.is_particular:
        return None
    return Particular(family, table.facts, table.facts_of[table.cards.node], table.number)


def _recall(memory: OrderedDict[_Key, _Value], key: _Key, most: int, make: Callable[[], _Value]) -> _Value:
    """Return what is remembered under a key, made if it is new; what was not asked for longest goes."""
    found = memory.get(key)
    if found is None:
        found = memory[key] = make()
        if len(memory) > most:
            memory.popitem(last=False)
    memory.move_to_end(key)
    return found
