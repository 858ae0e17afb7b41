"""Placing a pod on many nodes at once: a row for each node, its containers one after another.

What ``ContainerPlacer`` does on one node is done here on columns, by the same rules and hooks.
Where cards cannot be chosen one by one, it places on one node after another: NUMA groups, linked cards,
divided cards, a quota that is nearly used up.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.filtering.hook_calls import choose_cards, explain_refusal, make_matrix, make_terms, score_extra
from gpuloom.engine.filtering.request_columns import VendorAdjustments, make_request_columns
from gpuloom.engine.filtering.rules import filter_cards
from gpuloom.engine.placement.container_placer import Unplaced, allocate_core_bits
from gpuloom.engine.request.demand import PHASES_IN_ORDER_OF_PLACING, Demand, Phase
from gpuloom.engine.request.options import ScoreSlots
from gpuloom.engine.state.card_table import CardTable
from gpuloom.engine.state.tenants import sum_groups
from gpuloom.model.card_matrix import NO_CARD, CardMatrix, Chosen
from gpuloom.model.cards import Cards, Flags, Ints, Points, RuleCodes
from gpuloom.model.nodecards import Facts
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.request import Request
from gpuloom.model.request_columns import UNBOUNDED, RequestColumns
from gpuloom.model.share import ONLINE

BATCH_SIZE = 128
"""So many nodes are asked in one step, which takes one to two milliseconds."""


@dataclass(slots=True)
class BatchResult:
    """What some nodes say to a pod, a row for each.

    takes     whether the node takes it
    extra     what the vendor adds to the node's score, of nodes that take it
    unplaced  why not and which container, by row, of the others
    """

    takes: Flags
    extra: Points
    unplaced: dict[int, Unplaced] = field(default_factory=dict)


@dataclass(slots=True)
class NodeBatch:
    """The cards of some nodes: as one list, and laid out with a row for each node.

    cells  where in the list each card of a row stands; ``there`` which cells are cards
    rows   of the table
    facts  what each node says of all its cards
    """

    cards: Cards
    rows: Ints
    cells: Ints
    there: Flags
    facts: list[Facts]

    @property
    def totals(self) -> Ints:
        """How many cards each node has."""
        return np.asarray(np.count_nonzero(self.there, axis=1), np.int64)


@dataclass(slots=True)
class BatchPlacer:
    """Places one pod on many nodes."""

    compiled: CompiledProfile
    demand: Demand
    score_slots: ScoreSlots
    table: CardTable

    def place_on(self, positions: Ints) -> BatchResult:
        """Place the pod on nodes with cards; nothing is changed."""
        batch = _copy_batch(self.table, positions)
        running = batch.cards.scratch()
        requirements = {request: self._required(batch, request) for request in self._requests()}
        result = BatchResult(np.ones(len(positions), bool), np.zeros(len(positions)))
        taken = np.zeros(len(batch.rows), bool)
        chosen: list[Chosen] = []
        turn = 0
        for phase in PHASES_IN_ORDER_OF_PLACING:
            for container in self.demand.containers:
                if container.phase is not phase:
                    continue
                turn += 1
                if container.request is None:
                    continue
                request = container.request
                required = self._keep_to_card(batch, requirements[request], taken)
                columns = self._choose(batch, running, request, required, result, turn)
                where = running.scratch() if phase is Phase.INIT else running
                self._book(batch, where, required, columns, taken)
                chosen.append(Chosen(request, columns))
        if self.compiled.score is not None:
            result.extra = self._score_extra(batch, chosen, next(iter(requirements.values())))
        return result

    def _requests(self) -> Iterator[Request]:
        return (container.request for container in self.demand.containers if container.request is not None)

    def _choose(
        self,
        batch: NodeBatch,
        running: Cards,
        request: Request,
        required: RequestColumns,
        result: BatchResult,
        turn: int,
    ) -> Ints:
        """Choose cards for one container on every node, and note which nodes do not have them."""
        codes = filter_cards(running, required, self.compiled.rules.numbered)
        matrix = self._make_matrix(batch, running, required, codes)
        terms = make_terms(self.compiled, self.demand.selector, self.demand.policy.node_word)
        barred = self._bar(batch, matrix, required)
        columns = choose_cards(self.compiled, matrix, request, terms)
        served = (columns != NO_CARD).any(axis=1)
        for row in np.flatnonzero(result.takes & (barred | ~served)).tolist():
            refusal = self._say_why(batch, matrix, row, request, required)
            result.unplaced[row] = Unplaced(refusal, turn)
            result.takes[row] = False
        columns[~result.takes] = NO_CARD
        return columns

    def _bar(self, batch: NodeBatch, matrix: CardMatrix, required: RequestColumns) -> Flags:
        """Tell which nodes have too few cards, or cannot serve such a request at all."""
        barred = matrix.wanted > batch.totals
        if required.vendor_columns is not None:
            barred = barred | (required.vendor_columns.unserved[batch.cells] & batch.there).any(axis=1)
        return np.asarray(barred, np.bool_)

    def _say_why(
        self, batch: NodeBatch, matrix: CardMatrix, row: int, request: Request, required: RequestColumns
    ) -> Refusal:
        total = int(batch.totals[row])
        if matrix.wanted[row] > total:
            return refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)
        if (
            required.vendor_columns is not None
            and required.vendor_columns.unserved[batch.cells[row]][batch.there[row]].any()
        ):
            return Refusal({Reason.MODE_NOT_FIT: 1}, total)
        return explain_refusal(self.compiled, matrix, row, request)

    def _required(self, batch: NodeBatch, request: Request) -> RequestColumns:
        adjustments = None
        if self.compiled.adjusts_requests:
            adjustments = VendorAdjustments(
                self.compiled, self.table.facts, self.table.facts_of[batch.cards.node], self.table.number
            )
        return make_request_columns(
            batch.cards,
            [self.table.uuids[row] for row in batch.rows.tolist()],
            self.table.kinds,
            request,
            self.demand.selector,
            mutex=self.demand.policy.card_policy.mutex,
            headroom=UNBOUNDED,
            score_slots=self.score_slots,
            divided=bool(self.table.partitions),
            adjustments=adjustments,
        )

    def _keep_to_card(self, batch: NodeBatch, required: RequestColumns, taken: Flags) -> RequestColumns:
        """Where the vendor wants it, refuse all cards but the one that the pod has already."""
        if not self.compiled.profile.fit.same_card or not taken.any():
            return required
        of_node = np.repeat(np.count_nonzero(taken[batch.cells] & batch.there, axis=1), batch.totals)
        return msgspec.structs.replace(required, elsewhere=(of_node > 0) & ~(taken & (of_node == 1)))

    def _book(self, batch: NodeBatch, cards: Cards, required: RequestColumns, columns: Ints, taken: Flags) -> None:
        """Book what a container gets on every node."""
        rows, places = np.nonzero(columns != NO_CARD)
        given = batch.cells[rows, columns[rows, places]]
        cores = required.cores if isinstance(required.cores, int) else required.cores[given]
        if self.compiled.profile.fit.bits:
            cores = _allocate_core_bits(cards.used_cores[given], cards.total_cores[given], cores)
        cards.used_slots[given] += 1 if required.vendor_columns is None else required.vendor_columns.slots[given]
        cards.used_memory_mib[given] += required.memory_mib[given]
        cards.used_cores[given] += cores
        taken[given] = True
        if self.compiled.is_hooked:
            self._note_tenants(cards, required, given)

    def _note_tenants(self, cards: Cards, required: RequestColumns, given: Ints) -> None:
        """Let later containers of the pod see how these cards are shared out; classes are those of other pods."""
        sum_groups(cards)
        if required.vendor_columns is None or required.vendor_columns.app_class == ONLINE:
            return
        shown = given[cards.policy[given] >= 0]
        cards.policy[shown] = 0 if required.vendor_columns.whole else required.vendor_columns.policy

    def _score_extra(self, batch: NodeBatch, chosen: list[Chosen], required: RequestColumns) -> Points:
        """Return what the vendor adds to the nodes' scores; the cards are as they were before the pod."""
        matrix = self._make_matrix(batch, batch.cards, required, np.zeros(len(batch.rows), np.uint8))
        policy = self.demand.policy
        terms = make_terms(self.compiled, self.demand.selector, policy.node_word)
        return score_extra(self.compiled, matrix, chosen, terms, policy.node_policy)

    def _make_matrix(self, batch: NodeBatch, cards: Cards, required: RequestColumns, codes: RuleCodes) -> CardMatrix:
        cells, policy = batch.cells, self.demand.policy
        return make_matrix(
            self.compiled, policy, cards.rows(cells), required.rows(cells), codes[cells], batch.there, batch.facts
        )


def _copy_batch(table: CardTable, positions: Ints) -> NodeBatch:
    """Copy the cards of some nodes, all of which have some."""
    starts, ends = table.starts[positions], table.ends[positions]
    counts = ends - starts
    firsts = np.cumsum(counts) - counts
    rows = np.arange(int(counts.sum())) + np.repeat(starts - firsts, counts)
    columns = np.arange(int(counts.max(initial=0)))[None, :]
    there = columns < counts[:, None]
    cells = np.where(there, firsts[:, None] + columns, firsts[:, None])
    facts = [table.facts[number] for number in table.facts_of[positions].tolist()]
    return NodeBatch(table.cards.rows(rows), rows, cells, there, facts)


def _allocate_core_bits(used: Ints, total: Ints, cores: Ints | int) -> Ints:
    """Return the masks that a container gets of cards whose cores are bits."""
    asked = np.broadcast_to(cores, used.shape).tolist()
    return np.array(list(map(allocate_core_bits, used.tolist(), total.tolist(), asked)), np.int64)
