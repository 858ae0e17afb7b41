"""Verdicts where single cards do not tell which nodes fit: a vendor's hooks choose and score on all nodes at once."""

from collections.abc import Iterator, Sequence

import numpy as np

from gpuloom.engine.dealing import choose, deal, make_terms, refuse, weigh
from gpuloom.engine.family import Family
from gpuloom.engine.options import ScoreSlots
from gpuloom.engine.ranking import UNFIT
from gpuloom.engine.rules import Positions, combine, judge
from gpuloom.engine.scores import Scores
from gpuloom.engine.table import NOBODY, CardTable
from gpuloom.engine.verdicts import Shape, Verdicts
from gpuloom.model.cards import Ints
from gpuloom.model.hands import NO_CARD, Chosen, Hands
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal
from gpuloom.model.want import Want

_MOST_PATTERNS = 4096
_MOST_GIVEN = 1024
"""Nodes that changed are those to which the next pods go, and what they would get there is known."""
MOST_RANKED = 256
"""So many nodes' cards are chosen in one step, which takes about a millisecond."""
_UNSERVED = 255
"""In place of the position of a check: the card's node cannot serve such a request at all."""


class HookedVerdicts(Verdicts):
    """The verdicts for one shape of a vendor with hooks."""

    def __init__(self, shape: Shape, family: Family, score_slots: ScoreSlots) -> None:
        super().__init__(shape, family, score_slots)
        self._patterns: dict[tuple[bytes, bytes, int], Refusal] = {}
        self._unranked: Ints = np.zeros(0, np.int64)
        self._given: dict[int, list[int]] = {}

    def refresh(self, table: CardTable) -> None:
        """Bring the verdicts up to date with the table."""
        super().refresh(table)
        for _ in self.finish(table):
            pass

    def begin(self, table: CardTable) -> bool:
        """Bring the verdicts up to date as far as that is quick; tell whether :meth:`finish` has something left."""
        super().refresh(table)
        return len(self._unranked) > MOST_RANKED

    def finish(self, table: CardTable) -> Iterator[None]:
        """Rank the nodes that are left, some in each step. One that changes meanwhile is looked at again later."""
        # With other cards in the table all begins anew.
        while len(self._unranked) and self._registrations == table.registrations:
            some, self._unranked = self._unranked[:MOST_RANKED], self._unranked[MOST_RANKED:]
            self.ranks[some] = self._rank(table, some)[0]
            yield

    def recall_given(self, position: int, rows: slice) -> tuple[Sequence[int], Want] | None:
        """Return which of a node's cards such a pod gets and what each gives, None where that is not remembered."""
        given = self._given.get(position)
        return None if given is None else (given, self._want.rows(rows))

    def _judge_lasting(self, table: CardTable) -> Positions:
        lasting = super()._judge_lasting(table)
        if self._want.special is not None:
            lasting[self._want.special.unserved] = _UNSERVED
        return lasting

    def _sum_up(self, table: CardTable) -> None:
        count = len(table.names)
        fits = self.column == 0
        self.fitting = np.bincount(table.cards.node, weights=fits, minlength=count).astype(np.int32)
        self.ranks = np.full(count, UNFIT, np.float32)
        self._patterns.clear()
        self._given.clear()
        self.fitting[NOBODY] = 0
        self._unranked = np.flatnonzero(self.fitting)

    def _judge_node(self, table: CardTable, position: int) -> None:
        rows = table.rows_of(position)
        passing = judge(table.cards.rows(rows), self._want.rows(rows), self._rules.passing)
        self.column[rows] = column = combine(self._lasting[rows], passing)
        self.fitting[position] = fitting = len(column) - int(np.count_nonzero(column))
        self.ranks[position] = UNFIT
        self._given.pop(position, None)
        if fitting:
            ranks, columns = self._rank(table, np.array([position]))
            self.ranks[position] = ranks[0]
            if len(self._given) >= _MOST_GIVEN:
                self._given.clear()
            self._given[position] = columns[0][columns[0] != NO_CARD].tolist()
        self.refits += 1
        self._refusals.by_node.pop(position, None)

    def _rank(self, table: CardTable, positions: Ints) -> tuple[Scores, Ints]:
        """Choose on nodes and return their ranks, and which cards were chosen."""
        shape = self.shape
        if shape.choice is None:
            raise TypeError("a vendor with hooks needs to know how cards are chosen")
        hands = self._deal(table, positions)
        terms = make_terms(self._family, shape.selection, shape.choice.node_policy)
        columns = choose(self._family, hands, shape.request, terms)
        extra = weigh(self._family, hands, [Chosen(shape.request, columns)], terms, spread=shape.spread)
        scores = (table.node_scores[positions] + extra).astype(np.float32)
        served = (columns != NO_CARD).any(axis=1)
        return np.where(served, -scores if shape.spread else scores, UNFIT), columns

    def _deal(self, table: CardTable, positions: Ints) -> Hands:
        starts, ends = table.starts[positions], table.ends[positions]
        width = int((ends - starts).max(initial=0))
        rows = starts[:, None] + np.arange(width)[None, :]
        there = rows < ends[:, None]
        rows = np.where(there, rows, starts[:, None])
        facts = [table.facts[number] for number in table.facts_of[positions].tolist()]
        if self.shape.choice is None:
            raise TypeError("a vendor with hooks needs to know how cards are chosen")
        cards, want = table.cards.rows(rows), self._want.rows(rows)
        return deal(self._family, self.shape.choice, cards, want, self.column[rows], there, facts)

    def _refuse(self, table: CardTable, position: int) -> Refusal:
        rows = table.rows_of(position)
        unserved = self._want.special is not None and bool(self._want.special.unserved[rows].any())
        wanted = int(self._want.special.cards[rows.start]) if self._want.special else self.shape.request.cards
        if wanted > rows.stop - rows.start:
            return self._refusals.too_few_cards
        if unserved:
            return Refusal({Reason.MODE_NOT_FIT: 1}, rows.stop - rows.start)
        key = (self.column[rows].tobytes(), table.cards.index[rows].tobytes(), wanted)
        found = self._patterns.get(key)
        if found is None:
            if len(self._patterns) >= _MOST_PATTERNS:
                self._patterns.clear()
            hands = self._deal(table, np.array([position]))
            found = self._patterns[key] = refuse(self._family, hands, 0, self.shape.request)
        return found
