"""Which cards of nodes the containers of a pod get, on all nodes of a batch at once (scheduler 4.4, 6.1, 6.12)."""

from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.filtering.equivalence_class import classify
from gpuloom.engine.filtering.hook_calls import (
    choose_cards,
    explain_refusal,
    make_matrix,
    make_terms,
    mark_unsupported,
    score_extra,
)
from gpuloom.engine.filtering.per_card_request import make_request_columns
from gpuloom.engine.filtering.rules import filter_cards, first_rejection
from gpuloom.engine.placement.booking import Booking, book
from gpuloom.engine.placement.card_choice import ChoiceTerms, OrderedCards, choose_on_node
from gpuloom.engine.placement.quota_test import QuotaTest
from gpuloom.engine.request.demand import ContainerType, Demand
from gpuloom.engine.scoring.card_order import sort_cards
from gpuloom.engine.state.node_batch import NodeBatch
from gpuloom.model.card_matrix import NO_CARD, CardMatrix, Chosen, HookTerms
from gpuloom.model.cards import Flags, Ints, Points, RuleCodes
from gpuloom.model.mig import MigAllocation
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.request import Request
from gpuloom.model.request_columns import UNBOUNDED, Headroom, RequestColumns
from gpuloom.model.share import ContainerShares


@dataclass(frozen=True, slots=True)
class Placement:
    """What the containers get, init containers first; instances of divided cards that are written separately.

    extra  what the vendor adds to the node's score
    """

    shares: tuple[ContainerShares, ...]
    instances: tuple[MigAllocation, ...]
    extra: float = 0.0


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why a node does not take the pod, and with which of its containers that shows, in order of placing from 1."""

    refusal: Refusal
    turn: int


@dataclass(slots=True)
class BatchResult:
    """What the nodes of a batch say to a pod, a row for each.

    takes     whether the node takes it
    extra     what the vendor adds to the node's score, of nodes that take it
    unplaced  why not and which container, by row, of the others
    bookings  what each container gets, None for one that asks for no card
    """

    compiled: CompiledProfile
    batch: NodeBatch
    takes: Flags
    extra: Points
    bookings: list[Booking | None]
    unplaced: dict[int, Unplaced] = field(default_factory=dict)

    def share_out(self, node: int) -> tuple[ContainerShares, ...]:
        """Return what the containers get on one node, as far as they are placed."""
        return tuple([one.make_shares(self.compiled, self.batch, node) if one else () for one in self.bookings])

    def answer(self, node: int = 0) -> Placement | Unplaced:
        """Return what one node says, the first or only one unless another is named."""
        if not self.takes[node]:
            return self.unplaced[node]
        booked = [(at, one) for at, one in enumerate(self.bookings) if one and one.instances]
        instances = tuple([instance for at, one in booked for instance in one.list_instances(self.batch, at, node)])
        return Placement(self.share_out(node), instances, self.extra.item(node))


@dataclass(slots=True)
class Placer:
    """Places the containers of one pod on nodes; these are left as they are.

    headroom  what the namespace's quota still allows
    """

    compiled: CompiledProfile
    demand: Demand
    headroom: Headroom

    @property
    def places_at_once(self) -> bool:
        """Whether cards of many nodes are chosen in few steps, because nothing depends on several cards of a node."""
        return self.compiled.is_hooked or not (self.demand.preferences.numa_bind or self._links_cards)

    @property
    def _links_cards(self) -> bool:
        return self.compiled.links_cards(self.demand.preferences)

    def place(self, batch: NodeBatch, *, scores_extra: bool = True) -> BatchResult:
        """Place all containers on every node, or say why the first that does not fit does not.

        Init containers run one after another, so each sees the node without the others, except for how they divide
        cards; regular containers and sidecars see everything placed before them. Without ``scores_extra`` it is not
        worked out.
        """
        requirements = {one.request: self._require(batch, one.request) for one in self.demand.containers if one.request}
        running, taken = batch.copy(), np.zeros(len(batch.cards), bool)
        count, keeps_to_card = len(batch), self.compiled.profile.fit.same_card
        bookings: list[Booking | None] = [None] * len(self.demand.containers)
        result = BatchResult(self.compiled, batch, np.ones(count, bool), np.zeros(count), bookings)
        chosen: list[Chosen] = []
        for turn, (container_index, container) in enumerate(self.demand.in_order_of_placing, 1):
            request = container.request
            if request is None:
                continue
            required = requirements[request]
            if keeps_to_card:
                required = self._keep_to_card(batch, required, taken)
            columns = self._choose(running, request, required, result, (turn, container_index))
            if len(result.unplaced) == count:
                return result
            where = running.copy() if container.type is ContainerType.INIT else running
            bookings[container_index] = booking = book(self.compiled, where, required, columns)
            if where is not running:
                running.keep_geometries(where)
            if keeps_to_card:
                taken[booking.cards] = True
            chosen.append(Chosen(request, columns))
        if self.compiled.score is not None and scores_extra:
            result.extra = self._score_extra(batch, chosen, next(iter(requirements.values())))
        return result

    def _require(self, batch: NodeBatch, request: Request) -> RequestColumns:
        return make_request_columns(self.compiled, batch, classify(self.compiled, self.demand, request, UNBOUNDED))

    def _keep_to_card(self, batch: NodeBatch, required: RequestColumns, taken: Flags) -> RequestColumns:
        """Refuse all cards but the one that the pod has already."""
        if not taken.any():
            return required
        of_node = np.repeat(np.count_nonzero(taken[batch.cells] & batch.there, axis=1), batch.totals)
        return replace(required, other_than_earlier_card=(of_node > 0) & ~(taken & (of_node == 1)))

    def _score_extra(self, batch: NodeBatch, chosen: list[Chosen], required: RequestColumns) -> Points:
        """Return what the vendor adds to the nodes' scores; the cards are as they were before the pod."""
        matrix = self._make_matrix(batch, required, np.zeros(len(batch.cards), np.uint8))
        return score_extra(self.compiled, matrix, chosen, self._terms, self.demand.preferences.node_policy)

    def _choose(
        self,
        batch: NodeBatch,
        request: Request,
        required: RequestColumns,
        result: BatchResult,
        at: tuple[int, int],
    ) -> Ints:
        """Choose cards for one container on every node, columns, and note which nodes do not have them.

        at  which container is placed: its turn, and its index in the pod
        """
        codes = mark_unsupported(filter_cards(batch.cards, required, self.compiled.rules.numbered), required)
        tests = self._test_quota(batch, required, codes, result, at[1])
        refusals: dict[int, Refusal] = {}
        by_columns = len(batch) > 1 and self.places_at_once and not (batch.partitions or tests)
        if self.compiled.is_hooked or by_columns:
            matrix = self._make_matrix(batch, required, codes)
            columns = choose_cards(self.compiled, matrix, request, self._terms)
            for node in np.flatnonzero(result.takes & ~(columns != NO_CARD).any(axis=1)).tolist():
                refusals[node] = explain_refusal(self.compiled, matrix, node, request)
        else:
            # On one node trying card after card is several times as fast as columns.
            asking = result.takes.nonzero()[0].tolist()
            found = {node: self._choose_on_node(batch, required, codes, node, tests.get(node)) for node in asking}
            refusals = {node: one for node, one in found.items() if isinstance(one, Refusal)}
            nothing = [NO_CARD] * (0 if len(refusals) == len(asking) else required.cards)
            given = [nothing if node in refusals else found.get(node, nothing) for node in range(len(batch))]
            columns = np.array(given, np.int64)
        for node, refusal in refusals.items():
            result.unplaced[node], result.takes[node] = Unplaced(refusal, at[0]), False
        if result.unplaced:
            columns[~result.takes] = NO_CARD
        return columns

    def _test_quota(
        self, batch: NodeBatch, required: RequestColumns, codes: RuleCodes, result: BatchResult, container_index: int
    ) -> dict[int, QuotaTest]:
        """Return the test of a quota by node where cards are tested one by one; elsewhere reject cards by it."""
        tests: dict[int, QuotaTest] = {}
        quota_at = self.compiled.rules.quota_at
        if self.headroom == UNBOUNDED or not quota_at:
            return tests
        for node in np.flatnonzero(result.takes).tolist():
            cards = batch.cells[node][batch.there[node]]
            placed, container_types = result.share_out(node), self.demand.container_types
            test = QuotaTest(self.compiled, self.headroom, batch, required, container_types, placed, container_index)
            rejected = test.rejects(cards)
            if self.compiled.is_hooked or self._links_cards:
                # More cards are collected than are taken in the end: all count as much as each (B-09).
                codes[cards] = first_rejection(codes[cards], rejected * np.uint8(quota_at))
            elif rejected.any():
                tests[node] = test
        return tests

    def _choose_on_node(
        self, batch: NodeBatch, required: RequestColumns, codes: RuleCodes, node: int, test: QuotaTest | None
    ) -> list[int] | Refusal:
        """Choose cards of one node, columns of it, by trying one after the other; a divided card once an instance."""
        preferences = self.demand.preferences
        cards = batch.cards
        if len(batch) > 1:
            cells = batch.cells[node][batch.there[node]]
            cards, required, codes = cards.rows(cells), required.rows(cells), codes[cells]
        order = sort_cards(cards, required, preferences.card_policy.order, preferences.weights)
        at = batch.cells[node][order].tolist()
        partitions = [batch.partitions.get(card) for card in at] if batch.partitions else [None] * len(at)
        if required.cards > len(at) and not (any(partitions) and self.demand.selector.takes_instances):
            return refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)
        ordered = OrderedCards(
            codes=codes[order].tolist(),
            numa=cards.numa[order].tolist(),
            uuids=[batch.uuids[card] for card in at],
            memory_mib=required.memory_mib[order].tolist(),
            free_slots=(cards.count - cards.used_slots)[order].tolist(),
            partitions=partitions,
        )
        terms = ChoiceTerms(
            cards=required.cards,
            rules=self.compiled.rules,
            numa_bind=preferences.numa_bind,
            topology=self._links_cards,
            pair_scores=batch.registered[node].pair_scores,
            exceeds_quota=None
            if test is None
            else lambda found, one: test.exceeds([at[card] for card in (*found, one)]),
        )
        found, columns = choose_on_node(ordered, terms), order.tolist()
        return found if isinstance(found, Refusal) else [columns[card] for card in found]

    @property
    def _terms(self) -> HookTerms:
        return make_terms(self.compiled, self.demand.selector, self.demand.preferences.node_word)

    def _make_matrix(self, batch: NodeBatch, required: RequestColumns, codes: RuleCodes) -> CardMatrix:
        cells = batch.cells
        return make_matrix(
            self.compiled,
            self.demand.preferences,
            batch.cards.rows(cells),
            required.rows(cells),
            codes[cells],
            batch.there,
            batch.facts,
        )
