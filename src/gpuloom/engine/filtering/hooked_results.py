"""Filter results where single cards do not decide: a vendor's hooks choose cards on all nodes at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuloom.engine.bounded import FifoDict
from gpuloom.engine.filtering.filter_results import FilterResults
from gpuloom.engine.filtering.hook_calls import (
    choose_cards,
    explain_refusal,
    make_matrix,
    make_terms,
    score_extra,
)
from gpuloom.engine.filtering.rules import filter_cards
from gpuloom.engine.request.demand import PlacementPreferences
from gpuloom.engine.scoring.ranking import UNFIT
from gpuloom.engine.state.card_table import CardTable
from gpuloom.engine.state.node_batch import lay_out_one
from gpuloom.model.card_matrix import NO_CARD, CardMatrix, Chosen
from gpuloom.model.cards import Ints, Points, RuleCodes, Scores
from gpuloom.model.refusal import Refusal
from gpuloom.model.request_columns import RequestColumns

_FEW = 4
"""Up to so many nodes that changed are asked about one by one, 0.02 to 0.15 ms each; more of them together."""
_MOST_CHOSEN = 1024
"""Nodes that changed are those to which the next pods go, and what they would get there is known."""
MOST_RANKED = 256
"""So many nodes' cards are chosen in one step, which takes about a millisecond."""
_MOST_ANSWERS = 256
_NOTHING = np.float64(0.0)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What rules and hooks say about a node whose cards are in one state.

    column   what the rules say of each card, ``fitting`` of how many they reject none
    given    the cards that such a pod gets, none where the node does not take it
    extra    what the vendor adds to the node's score
    """

    column: RuleCodes
    fitting: int
    given: list[int]
    extra: np.float64


@dataclass(eq=False)
class HookedResults(FilterResults):
    """The filter results for one equivalence class of a vendor with hooks."""

    _unranked: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _answers: FifoDict[int, _Answer] = field(default_factory=lambda: FifoDict(_MOST_ANSWERS))
    _chosen_cards: FifoDict[int, list[int]] = field(default_factory=lambda: FifoDict(_MOST_CHOSEN))

    def begin(self, table: CardTable) -> bool:
        """Bring the results up to date as far as that is quick; tell whether :meth:`finish` has very much left."""
        super().begin(table)
        return len(self._unranked) > MOST_RANKED

    def finish(self, table: CardTable) -> Iterator[None]:
        """Rank the nodes that are left, some in each step. One that changes meanwhile is looked at again later."""
        # With other cards in the table all begins anew.
        while len(self._unranked) and table.changed_since(self._seen) is not None:
            some, self._unranked = self._unranked[:MOST_RANKED], self._unranked[MOST_RANKED:]
            self.ranks[some] = self._rank(table, some)
            self._rank_all(table, is_anew=True)
            yield

    def recall_chosen(self, position: int, rows: slice) -> tuple[Sequence[int], RequestColumns] | None:
        """Return which of a node's cards such a pod gets and what each gives, None where that is not remembered."""
        given = self._chosen_cards.get(position)
        return None if not given else (given, self._required.rows(rows))

    def _few(self, table: CardTable) -> int:  # noqa: ARG002 - one by one takes as long in any table
        return _FEW

    def _sum_up(self, table: CardTable, changed: set[int] | None) -> None:
        """Count what fits; nodes that may be other than before are ranked later, see :meth:`finish`."""
        self.fitting = table.add_up(self.column == 0, np.int32)
        if changed is None:
            self.ranks = np.full(len(table.names), UNFIT, np.float32)
            self._chosen_cards.clear()
            self._unranked = np.flatnonzero(self.fitting)
            return
        others = np.fromiter(changed, np.int64, len(changed))
        self.ranks[others] = UNFIT
        for position in changed:
            self._chosen_cards.pop(position, None)
        unranked = np.union1d(self._unranked, others)
        self._unranked = unranked[self.fitting[unranked] > 0]

    def _read_registered(self, table: CardTable) -> None:
        super()._read_registered(table)
        self._answers.clear()

    def _filter_node(self, table: CardTable, position: int) -> None:
        answer = self._recall_answer(table, position)
        self.column[table.rows_of(position)] = answer.column
        self.fitting[position] = answer.fitting
        score = np.float32(table.node_scores[position] + answer.extra)
        self.ranks[position] = self.rank_nodes(table, score, position) if answer.given else UNFIT
        self._chosen_cards[position] = answer.given
        self.refits += 1
        self._refusals.by_node.pop(position, None)

    def _recall_answer(self, table: CardTable, position: int) -> _Answer:
        """Return what is said about a node whose cards are as this one's are; classes that name cards are not kept."""
        state = table.state_of(position)
        answer = self._answers.get(state)
        if answer is None:
            answer = self._answers[state] = self._ask(table, position)
        return answer

    def _ask(self, table: CardTable, position: int) -> _Answer:
        """Ask rules and hooks about one node."""
        rows = table.rows_of(position)
        cards, required = table.cards.rows(rows), self._required.rows(rows)
        said = None if self._static is None else self._static[rows]
        column = filter_cards(cards, required, self._compiled.rules.by_usage, said)
        fitting = len(column) - int(np.count_nonzero(column))
        if not fitting:
            return _Answer(column, 0, [], _NOTHING)
        _, there = lay_out_one(len(cards))
        facts, row = [table.facts[table.facts_of.item(position)]], (None, slice(None))
        columns, extra = self._choose(
            make_matrix(
                self._compiled, self._preferences, cards.rows(row), required.rows(row), column[row], there, facts
            )
        )
        return _Answer(column, fitting, columns[columns != NO_CARD].tolist(), extra[0])

    def _rank(self, table: CardTable, positions: Ints) -> Scores:
        """Choose on nodes and return their ranks."""
        columns, extra = self._choose(self._make_matrix(table, positions))
        scores = (table.node_scores[positions] + extra).astype(np.float32)
        served = (columns != NO_CARD).any(axis=1)
        return np.where(served, self.rank_nodes(table, scores, positions), UNFIT)

    def _choose(self, matrix: CardMatrix) -> tuple[Ints, Points]:
        """Choose cards on every node and say what that adds to the node's score."""
        equivalence_class = self.equivalence_class
        terms = make_terms(self._compiled, equivalence_class.selector, self._preferences.node_word)
        columns = choose_cards(self._compiled, matrix, equivalence_class.request, terms)
        return columns, score_extra(
            self._compiled, matrix, [Chosen(equivalence_class.request, columns)], terms, equivalence_class.node_policy
        )

    @property
    def _preferences(self) -> PlacementPreferences:
        if self.equivalence_class.preferences is None:
            raise TypeError("a vendor with hooks needs to know how cards are chosen")
        return self.equivalence_class.preferences

    def _make_matrix(self, table: CardTable, positions: Ints) -> CardMatrix:
        rows, there = table.lay_out(positions)
        facts = [table.facts[number] for number in table.facts_of[positions].tolist()]
        cards, required = table.cards.rows(rows), self._required.rows(rows)
        return make_matrix(self._compiled, self._preferences, cards, required, self.column[rows], there, facts)

    def _refuse(self, table: CardTable, position: int) -> Refusal:
        rows = table.rows_of(position)
        vendor_columns, first = self._required.vendor_columns, rows.start
        asks = self._required.cards_at(first), vendor_columns is not None and bool(vendor_columns.unsupported[first])
        key = (self.column[rows].tobytes(), table.cards.index[rows].tobytes(), *asks)
        found = self._refusals.by_pattern.get(key)
        if found is None:
            matrix = self._make_matrix(table, np.array([position]))
            found = self._refusals.by_pattern[key] = explain_refusal(
                self._compiled, matrix, 0, self.equivalence_class.request
            )
        return found
