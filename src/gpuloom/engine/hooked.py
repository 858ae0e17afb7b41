"""Verdicts where single cards do not tell which nodes fit: a vendor's hooks choose and score on all nodes at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpuloom.engine.commonverdicts import CommonVerdicts
from gpuloom.engine.dealing import choose, deal, deal_one, make_terms, refuse, weigh
from gpuloom.engine.demand import Choice
from gpuloom.engine.family import Family
from gpuloom.engine.options import ScoreSlots
from gpuloom.engine.ranking import UNFIT
from gpuloom.engine.rules import Positions, judge
from gpuloom.engine.scores import Scores
from gpuloom.engine.table import CardTable
from gpuloom.engine.verdicts import Shape, Verdicts
from gpuloom.model.cards import Ints
from gpuloom.model.hands import NO_CARD, Chosen, Hands, Points
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal
from gpuloom.model.want import Want

_FEW = 4
"""Up to so many nodes that changed are asked about one by one, 0.02 to 0.15 ms each; more of them together."""
_MOST_PATTERNS = 4096
_MOST_GIVEN = 1024
"""Nodes that changed are those to which the next pods go, and what they would get there is known."""
MOST_RANKED = 256
"""So many nodes' cards are chosen in one step, which takes about a millisecond."""
_UNSERVED = 255
"""In place of the position of a check: the card's node cannot serve such a request at all."""
_MOST_ANSWERS = 256
_NOTHING = np.float64(0.0)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What rules and hooks say about a node whose cards are in one state.

    column   what the rules say of each card, ``fitting`` of how many they reject none
    given    the cards that such a pod gets, none where the node does not take it
    extra    what the vendor adds to the node's score
    """

    column: Positions
    fitting: int
    given: list[int]
    extra: np.float64


class HookedVerdicts(Verdicts):
    """The verdicts for one shape of a vendor with hooks."""

    def __init__(self, shape: Shape, family: Family, score_slots: ScoreSlots, common: CommonVerdicts) -> None:
        super().__init__(shape, family, score_slots, common)
        self._patterns: dict[tuple[bytes, bytes, int], Refusal] = {}
        self._unranked: Ints = np.zeros(0, np.int64)
        self._answers: dict[int, _Answer] = {}
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
            self.ranks[some] = self._rank(table, some)
            yield

    def recall_given(self, position: int, rows: slice) -> tuple[Sequence[int], Want] | None:
        """Return which of a node's cards such a pod gets and what each gives, None where that is not remembered."""
        given = self._given.get(position)
        return None if not given else (given, self._want.rows(rows))

    def _few(self, table: CardTable) -> int:  # noqa: ARG002 - one by one takes as long in any table
        return _FEW

    def _judge_lasting(self, table: CardTable) -> Positions | None:
        lasting = super()._judge_lasting(table)
        if self._want.special is None or not self._want.special.unserved.any():
            return lasting
        if lasting is None:
            lasting = np.zeros(len(table.cards), np.uint8)
        lasting[self._want.special.unserved] = _UNSERVED
        return lasting

    def _sum_up(self, table: CardTable, changed: set[int] | None) -> None:
        """Count what fits; nodes that may be other than before are ranked later, see :meth:`finish`."""
        self.fitting = table.add_up(self.column == 0, np.int32)
        if changed is None:
            self.ranks = np.full(len(table.names), UNFIT, np.float32)
            self._given.clear()
            self._unranked = np.flatnonzero(self.fitting)
            return
        others = np.fromiter(changed, np.int64, len(changed))
        self.ranks[others] = UNFIT
        for position in changed:
            self._given.pop(position, None)
        unranked = np.union1d(self._unranked, others)
        self._unranked = unranked[self.fitting[unranked] > 0]

    def _read_registered(self, table: CardTable) -> None:
        super()._read_registered(table)
        self._patterns.clear()
        self._answers.clear()

    def _judge_node(self, table: CardTable, position: int) -> None:
        answer = self._recall_answer(table, position)
        self.column[table.rows_of(position)] = answer.column
        self.fitting[position] = answer.fitting
        score = np.float32(table.node_scores[position] + answer.extra)
        self.ranks[position] = UNFIT if not answer.given else -score if self.shape.spread else score
        if len(self._given) >= _MOST_GIVEN:
            self._given.clear()
        self._given[position] = answer.given
        self.refits += 1
        self._refusals.by_node.pop(position, None)

    def _recall_answer(self, table: CardTable, position: int) -> _Answer:
        """Return what is said about a node whose cards are as this one's are; shapes that name cards are not kept."""
        state = table.state_of(position)
        answer = self._answers.get(state)
        if answer is None:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            answer = self._answers[state] = self._ask(table, position)
        return answer

    def _ask(self, table: CardTable, position: int) -> _Answer:
        """Ask rules and hooks about one node."""
        rows = table.rows_of(position)
        cards, want = table.cards.rows(rows), self._want.rows(rows)
        said = None if self._lasting is None else self._lasting[rows]
        column = judge(cards, want, self._rules.passing, said)
        fitting = len(column) - int(np.count_nonzero(column))
        if not fitting:
            return _Answer(column, 0, [], _NOTHING)
        facts = table.facts[table.facts_of.item(position)]
        columns, extra = self._choose(deal_one(self._family, self._choice, cards, want, column, facts))
        return _Answer(column, fitting, columns[columns != NO_CARD].tolist(), extra[0])

    def _rank(self, table: CardTable, positions: Ints) -> Scores:
        """Choose on nodes and return their ranks."""
        columns, extra = self._choose(self._deal(table, positions))
        scores = (table.node_scores[positions] + extra).astype(np.float32)
        served = (columns != NO_CARD).any(axis=1)
        return np.where(served, -scores if self.shape.spread else scores, UNFIT)

    def _choose(self, hands: Hands) -> tuple[Ints, Points]:
        """Choose cards on every node and say what that adds to the node's score."""
        shape = self.shape
        terms = make_terms(self._family, shape.selection, self._choice.node_policy)
        columns = choose(self._family, hands, shape.request, terms)
        return columns, weigh(self._family, hands, [Chosen(shape.request, columns)], terms, spread=shape.spread)

    @property
    def _choice(self) -> Choice:
        if self.shape.choice is None:
            raise TypeError("a vendor with hooks needs to know how cards are chosen")
        return self.shape.choice

    def _deal(self, table: CardTable, positions: Ints) -> Hands:
        starts, ends = table.starts[positions], table.ends[positions]
        width = int((ends - starts).max(initial=0))
        rows = starts[:, None] + np.arange(width)[None, :]
        there = rows < ends[:, None]
        rows = np.where(there, rows, starts[:, None])
        facts = [table.facts[number] for number in table.facts_of[positions].tolist()]
        cards, want = table.cards.rows(rows), self._want.rows(rows)
        return deal(self._family, self._choice, cards, want, self.column[rows], there, facts)

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
