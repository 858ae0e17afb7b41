"""Remembered filter results: what the rules say about every card, for one equivalence class of requests.

Pods come in few equivalence classes. For each the column of results is kept with a mark in the table's change log; the
next decision asks the same rules again, but only about nodes that changed since, and of those only the rules about
usage. What the card alone decides is worked out once for all classes. These are remembered answers of the same rules,
never another set of rules, and they make a decision independent of the size of the cluster.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuloom.engine.bounded import FifoDict
from gpuloom.engine.filtering.card_only_results import CardOnlyResults
from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.filtering.equivalence_class import EquivalenceClass
from gpuloom.engine.filtering.hook_calls import mark_unsupported
from gpuloom.engine.filtering.per_card_request import make_request_columns
from gpuloom.engine.filtering.ranks_of_all import RanksOfAll
from gpuloom.engine.filtering.rules import (
    Rejects,
    filter_card,
    filter_cards,
    first_rejection,
    first_rejection_of_card,
    select_applicable,
)
from gpuloom.engine.scoring.card_order import SortKey, sort_key
from gpuloom.engine.scoring.policy import NodesToRank
from gpuloom.engine.scoring.ranking import UNFIT
from gpuloom.engine.scoring.weights import Weights
from gpuloom.engine.state.card_table import NEVER, CardTable, Version
from gpuloom.engine.state.seen_cards import SeenCards
from gpuloom.model.cards import CardNumbers, Ints, RuleCodes, Scores
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.request_columns import RequestColumns, RequestNumbers

_MOST_PATTERNS = 4096
_KeysOf = tuple[int, tuple[SortKey, ...], Weights]
"""The position of a node, and the order in which its cards are to be tried."""
_MOST_NODES = 128
"""Decisions go to few nodes at a time, and what is remembered of a node is quickly found again."""


@dataclass(slots=True)
class _Refusals:
    """Refusals by node and by what rules say of its cards; equal ones are one object, so that few texts are made."""

    by_node: dict[int, Refusal] = field(default_factory=dict)
    by_pattern: FifoDict[Hashable, Refusal] = field(default_factory=lambda: FifoDict(_MOST_PATTERNS))
    by_counts: dict[tuple[tuple[int, int], ...], Refusal] = field(default_factory=dict)
    too_few_cards: Refusal = field(default_factory=lambda: refuse_node(Reason.NODE_INSUFFICIENT_DEVICE))


@dataclass(eq=False)
class FilterResults:
    """The results of the rules for all cards and one equivalence class.

    column   by row, position of the first rule that rejects the card, 0 for none
    fitting  by position of the node, how many of its cards no rule rejects
    ranks    by position of the node, its rank by the policy, UNFIT where too few cards fit
    refits   how many nodes were looked at so far, and ``looks`` at how many single cards of them
    ranks_of_all  what ranks nodes where that follows from all of them, None where the policy does it alone
    """

    equivalence_class: EquivalenceClass
    _compiled: CompiledProfile
    _card_only: CardOnlyResults
    column: RuleCodes = field(default_factory=lambda: np.zeros(0, np.uint8))
    fitting: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    ranks: Scores = field(default_factory=lambda: np.zeros(0, np.float32))
    refits: int = 0
    looks: int = 0
    ranks_of_all: RanksOfAll | None = None
    _required: RequestColumns = field(init=False)
    _seen_cards: SeenCards = field(default_factory=lambda: SeenCards(_MOST_NODES))
    _requirements: FifoDict[int, list[RequestNumbers]] = field(default_factory=lambda: FifoDict(_MOST_NODES))
    _keyed: FifoDict[_KeysOf, list[tuple[CardNumbers | None, tuple[Any, ...]]]] = field(
        default_factory=lambda: FifoDict(_MOST_NODES)
    )
    _asked: Sequence[tuple[int, Rejects]] = ()
    _static: RuleCodes | None = None
    _refusals: _Refusals = field(default_factory=_Refusals)
    _seen: Version = NEVER

    def begin(self, table: CardTable) -> bool:
        """Bring the results up to date as far as that is quick; tell whether :meth:`finish` has very much left."""
        changed = table.changed_since(self._seen)
        if changed is None:
            self._read_registered(table)
            self._filter_all(table)
        elif len(changed) > self._few(table):
            self._filter_all(table, changed)
        else:
            for position in changed:
                self._filter_node(table, position)
        self._seen = table.version
        self._rank_all(table)
        return False

    def _rank_all(self, table: CardTable, *, is_anew: bool = False) -> None:
        """Rank the nodes that fit, where that follows from all nodes.

        is_anew  whether ranks of other nodes than those that changed were written
        """
        if self.ranks_of_all is not None:
            ranks = self.ranks.copy() if is_anew else self.ranks
            self.ranks = self.ranks_of_all.rank(table, self._required, self.column, ranks)

    def finish(self, table: CardTable) -> Iterator[None]:  # noqa: ARG002 - families with hooks need it
        """Do what is left, step by step."""
        return iter(())

    def recall_chosen(self, position: int, rows: slice) -> tuple[Sequence[int], RequestColumns] | None:  # noqa: ARG002 - as finish
        """Return which of a node's cards such a pod gets and what each gives, None where that is not remembered."""
        return None

    def refuse(self, table: CardTable, positions: Ints) -> list[Refusal]:
        """Return why nodes cannot serve, counted from the column alone; equal refusals are one object."""
        known, by_pattern = self._refusals.by_node, self._refusals.by_pattern
        places = positions.tolist()
        missing = [position for position in places if position not in known]
        # Where nothing is known yet these are all nodes, and very few of them say anything new.
        column, at = self.column.tobytes(), np.fromiter(missing, np.int64, len(missing))
        for position, start, end in zip(missing, table.starts[at].tolist(), table.ends[at].tolist(), strict=True):
            said = by_pattern.get(column[start:end]) if end - start >= self.equivalence_class.request.cards else None
            known[position] = said or self._refuse(table, position)
        return [known[position] for position in places]

    def requirements(self, position: int, rows: slice) -> list[RequestNumbers]:
        """Return what the request needs of a node's cards, one by one."""
        found = self._requirements.get(position)
        if found is None:
            found = self._requirements[position] = list(self._required.one_by_one(rows))
        return found

    def sort_keys(
        self, table: CardTable, position: int, which: Sequence[int], order: tuple[SortKey, ...], weights: Weights
    ) -> Mapping[int, tuple[Any, ...]]:
        """Return what some of a node's cards are tried by; only that of cards that changed is worked out anew."""
        cards, requirements = table.cards_of(position), self.requirements(position, table.rows_of(position))
        keyed = self._keyed.get((position, order, weights))
        if keyed is None:
            keyed = self._keyed[position, order, weights] = [(None, ())] * len(cards)
        for at in which:
            if keyed[at][0] is not cards[at]:
                keyed[at] = cards[at], sort_key(cards[at], requirements[at], order, weights, at)
        return {at: keyed[at][1] for at in which}

    def _few(self, table: CardTable) -> int:
        """Return up to how many nodes that changed are looked at one by one."""
        return table.few

    def _read_registered(self, table: CardTable) -> None:
        """Work out anew what follows from what nodes registered, and forget what was remembered of them."""
        self._required = make_request_columns(self._compiled, table, self.equivalence_class)
        self._keyed.clear()
        self._requirements.clear()
        self._seen_cards.clear()
        self._refusals = _Refusals()
        mattering = select_applicable(self._compiled.rules.by_usage, self._required)
        self._asked = [(position, rule.rejects) for position, rule in mattering]
        self._static = self._filter_static(table)

    def _filter_all(self, table: CardTable, changed: set[int] | None = None) -> None:
        """Ask about all cards as columns; ``changed`` are the nodes that may be other than before, None for all."""
        self._card_only.refresh(table, self._required)
        said = self._card_only.column if self._static is None else first_rejection(self._static, self._card_only.column)
        self.column = filter_cards(table.cards, self._required, self._compiled.rules.by_request_and_usage, said)
        self._sum_up(table, changed)
        self.refits += len(table.positions)
        for position in changed or ():
            self._refusals.by_node.pop(position, None)

    def _filter_static(self, table: CardTable) -> RuleCodes | None:
        """Return what the rules, and the vendor, say that usage does not change, None where that rejects no card."""
        rules, columns = select_applicable(self._compiled.rules.static, self._required), self._required.vendor_columns
        if not rules and (columns is None or not columns.unsupported.any()):
            return None
        return mark_unsupported(filter_cards(table.cards, self._required, rules), self._required)

    def _sum_up(self, table: CardTable, changed: set[int] | None) -> None:  # noqa: ARG002 - families with hooks need it
        """Work out for all nodes what follows from the column."""
        nodes = slice(len(table.names))
        self.fitting = table.add_up(self.column == 0, np.int32)
        scores = table.node_scores[nodes]
        enough = self.fitting >= self.equivalence_class.request.cards
        self.ranks = np.where(enough, self.rank_nodes(table, scores, nodes), UNFIT)

    def _filter_node(self, table: CardTable, position: int) -> None:
        """Filter the cards of one node that changed, and rank the node anew."""
        rows, cards, fitting = table.rows_of(position), table.cards_of(position), self.fitting.item(position)
        requirements = self.requirements(position, rows)
        changed = self._seen_cards.note(position, cards)
        for at in changed:
            row, code = rows.start + at, filter_card(cards[at], requirements[at], self._asked)
            if self._static is not None:
                code = first_rejection_of_card(self._static.item(row), code)
            if code != (before := self.column.item(row)):
                self.column[row] = code
                fitting += (code == 0) - (before == 0)
        self.looks += len(changed)
        self.fitting[position] = fitting
        enough = fitting >= self.equivalence_class.request.cards
        score = table.node_scores[position]
        self.ranks[position] = self.rank_nodes(table, score, position) if enough else UNFIT
        self.refits += 1
        self._refusals.by_node.pop(position, None)

    def rank_nodes(self, table: CardTable, scores: Any, which: int | slice | Ints) -> Any:
        """Return the ranks of nodes by the policy, from their scores with what the vendor adds."""
        nodes = NodesToRank(table.cards, table.starts, table.ends, which, self._required, self.column)
        return self.equivalence_class.node_policy.rank(scores, nodes)

    def rank_placed(self, table: CardTable, scores: Any, which: slice | Ints) -> Any:
        """Return the ranks of nodes on which the pod is placed, from their scores with what the vendor adds."""
        if self.ranks_of_all is not None:
            return self.ranks_of_all.ranks_of(which)
        return self.rank_nodes(table, scores, which)

    def ranked_cards(self, position: int) -> list[int]:
        """Return which of a node's cards are to be taken where its rank follows from them, none if it does not."""
        return [] if self.ranks_of_all is None else self.ranks_of_all.cards_of(position)

    def remember_node(self, table: CardTable, position: int) -> None:
        """Remember a node as it was filtered before a pod is placed on it: then only cards that change are read."""
        if position not in self._seen_cards:
            cards = table.cards_of(position)
            self._seen_cards.note(position, cards)
            if self.ranks_of_all is not None:
                self.ranks_of_all.remember_node(position, cards)

    def _refuse(self, table: CardTable, position: int) -> Refusal:
        """Return why a node does not take the request: nodes with the same codes share one value."""
        rows = table.rows_of(position)
        if self.equivalence_class.request.cards > rows.stop - rows.start and not self._may_divide(table, rows):
            return self._refusals.too_few_cards
        column = self.column[rows].tobytes()
        refusal = self._refusals.by_pattern.get(column)
        if refusal is None:
            refusal = self._refusals.by_pattern[column] = self._refuse_by_counts(column)
        return refusal

    def _may_divide(self, table: CardTable, rows: slice) -> bool:
        return self.equivalence_class.selector.takes_instances and bool(table.cards.division[rows].any())

    def _refuse_by_counts(self, column: bytes) -> Refusal:
        """Count the cards by reason; ``column`` has a byte for each card, the number of the rule that rejects it."""
        counts = tuple(sorted(Counter(column).items()))
        refusal = self._refusals.by_counts.get(counts)
        if refusal is None:
            by_reason: Counter[Reason] = Counter()
            for position, count in counts:
                fits = Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST
                by_reason[self._compiled.rules.reason(position) if position else fits] += count
            refusal = self._refusals.by_counts[counts] = Refusal(by_reason, len(column))
        return refusal
