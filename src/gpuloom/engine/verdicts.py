"""Remembered verdicts: what the rules say about every card, by shape of request.

Pods come in few shapes. For each the verdict column is kept with the version of the table it was computed at; the next
decision asks the same rules again, but only about nodes that changed since. That is a memory of answers, not another
set of rules, and it makes a decision independent of the size of the cluster.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass, field

import numpy as np

from gpuloom.engine.demand import Selection
from gpuloom.engine.need import make_want
from gpuloom.engine.rules import Positions, RuleOrder, judge
from gpuloom.engine.table import CardTable
from gpuloom.model.cards import Ints
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.request import Request
from gpuloom.model.want import Headroom

MOST_SHAPES = 256
_FEW = 0.05
"""Up to this part of all nodes it is cheaper to look at those that changed than at all."""


@dataclass(frozen=True, slots=True)
class Shape:
    """All that the verdict on a card depends on beside the card; never the pod."""

    request: Request
    selection: Selection
    mutex: bool
    headroom: Headroom


@dataclass(slots=True)
class Verdicts:
    """The verdicts on all cards for one shape.

    column   by row, position of the first rule that rejects the card, 0 for none
    fitting  by position of the node, how many of its cards no rule rejects
    """

    shape: Shape
    rules: RuleOrder
    column: Positions = field(default_factory=lambda: np.zeros(0, np.uint8))
    fitting: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    refits: int = 0
    _refusals: dict[int, Refusal] = field(default_factory=dict)
    _by_column: dict[bytes, Refusal] = field(default_factory=dict)
    _by_counts: dict[tuple[tuple[int, int], ...], Refusal] = field(default_factory=dict)
    _too_few_cards: Refusal = field(default_factory=lambda: refuse_node(Reason.NODE_INSUFFICIENT_DEVICE))
    _version: int = -1

    def refresh(self, table: CardTable) -> None:
        """Bring the verdicts up to date with the table."""
        if self._version == table.version:
            return
        nodes = len(table.names)
        changed = np.flatnonzero(table.changed_at[:nodes] > self._version)
        self._grow(len(table.cards), len(table.starts))
        if self._version < 0 or len(changed) > _FEW * nodes:
            self._judge_all(table)
        else:
            for position in changed.tolist():
                self._judge_node(table, position)
        self.refits += len(changed)
        self._version = table.version

    def refuse(self, table: CardTable, positions: Ints) -> list[Refusal]:
        """Return why nodes cannot serve, counted from the column alone; equal refusals are one object."""
        known = self._refusals
        places = positions.tolist()
        for position in places:
            if position not in known:
                known[position] = self._refuse(table, position)
        return [known[position] for position in places]

    def _refuse(self, table: CardTable, position: int) -> Refusal:
        rows = table.rows_of(position)
        if self.shape.request.cards > rows.stop - rows.start and not self._may_divide(table, rows):
            return self._too_few_cards
        column = self.column[rows].tobytes()
        refusal = self._by_column.get(column)
        if refusal is None:
            refusal = self._by_column[column] = self._count(column)
        return refusal

    def _count(self, column: bytes) -> Refusal:
        """Make the refusal of a node with these verdicts; equal counts give the same object."""
        counts = tuple(sorted(Counter(column).items()))
        refusal = self._by_counts.get(counts)
        if refusal is None:
            by_reason: Counter[Reason] = Counter()
            for position, count in counts:
                reason = self.rules.reason(position) if position else Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST
                by_reason[reason] += count
            refusal = self._by_counts[counts] = Refusal(by_reason, len(column))
        return refusal

    def _may_divide(self, table: CardTable, rows: slice) -> bool:
        return self.shape.selection.takes_instances and bool(table.cards.division[rows].any())

    def _judge_all(self, table: CardTable) -> None:
        self._refusals.clear()
        self._by_column.clear()
        self.column[:] = self._judge(table, slice(0, len(table.cards)))
        fits = self.column == 0
        self.fitting = np.bincount(table.cards.node[fits], minlength=len(table.starts))

    def _judge_node(self, table: CardTable, position: int) -> None:
        rows = table.rows_of(position)
        self._refusals.pop(position, None)
        self.column[rows] = self._judge(table, rows)
        self.fitting[position] = np.count_nonzero(self.column[rows] == 0)

    def _judge(self, table: CardTable, rows: slice) -> Positions:
        shape = self.shape
        want = make_want(table, rows, shape.request, shape.selection, mutex=shape.mutex, headroom=shape.headroom)
        return judge(table.cards.rows(rows), want, self.rules)

    def _grow(self, rows: int, nodes: int) -> None:
        if len(self.column) != rows:
            self.column = np.resize(self.column, rows) if len(self.column) else np.zeros(rows, np.uint8)
        if len(self.fitting) < nodes:
            self.fitting = np.concatenate((self.fitting, np.zeros(nodes - len(self.fitting), np.int64)))


@dataclass(slots=True)
class VerdictMemory:
    """The verdicts of the shapes that were asked about last."""

    rules: RuleOrder
    _by_shape: OrderedDict[Shape, Verdicts] = field(default_factory=OrderedDict)

    def all(self) -> tuple[Verdicts, ...]:
        """Return what is remembered, for metrics: the shape asked about last comes last."""
        return tuple(self._by_shape.values())

    def forget_all(self) -> None:
        """Forget everything; the next decisions look at all cards again."""
        self._by_shape.clear()

    def recall(self, table: CardTable, shape: Shape) -> Verdicts:
        """Return the verdicts for a shape, up to date."""
        verdicts = self._by_shape.get(shape)
        if verdicts is None:
            verdicts = self._by_shape[shape] = Verdicts(shape, self.rules)
            if len(self._by_shape) > MOST_SHAPES:
                self._by_shape.popitem(last=False)
        self._by_shape.move_to_end(shape)
        verdicts.refresh(table)
        return verdicts
