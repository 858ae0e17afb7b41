"""Which cards of one node the containers of a pod get (scheduler 4.4, 6.1, 6.12)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.filtering.hook_calls import (
    choose_cards,
    explain_refusal,
    make_matrix_of_node,
    make_terms,
    score_extra,
)
from gpuloom.engine.filtering.rule_table import RuleOrder
from gpuloom.engine.filtering.rules import filter_cards
from gpuloom.engine.placement.card_walk import OrderedCards, WalkTerms, walk
from gpuloom.engine.request.demand import PHASES_IN_ORDER_OF_PLACING, CardSelector, Phase, PlacementPolicy
from gpuloom.engine.scoring.card_order import order_cards
from gpuloom.engine.state.node_copy import NodeCopy
from gpuloom.engine.state.partitions import TakenInstance
from gpuloom.engine.state.tenants import sum_groups
from gpuloom.engine.state.usage import Usage, collapse, sum_for_quota
from gpuloom.model.card_matrix import NO_CARD, CardMatrix, Chosen
from gpuloom.model.cards import Cards, Ints, RuleCodes
from gpuloom.model.mig import MigAllocation, MigInstance
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.request import Request
from gpuloom.model.request_columns import UNBOUNDED, Headroom, RequestColumns
from gpuloom.model.share import ONLINE, ContainerShares, Share
from gpuloom.wire.mig import encode_mig_instance

QuotaTest = Callable[[Sequence[int], int], bool]
"""Tells of rows collected and one more whether a container that got them would exceed the quota."""


@dataclass(frozen=True, slots=True)
class PlacedContainer:
    """One container of the pod: when it runs, what it asks for, and what that is of each card; None for nothing."""

    phase: Phase
    request: Request | None
    required: RequestColumns | None


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


def place_plain(
    vendor: str,
    uuids: Sequence[str],
    requirements: Sequence[RequestColumns],
    codes: Sequence[int],
    keys: Sequence[tuple[Any, ...]],
) -> ContainerShares:
    """Choose among a node's cards those that no rule rejects, smallest key first; there are enough of them."""
    order = sorted([place for place, code in enumerate(codes) if not code], key=keys.__getitem__)
    chosen = order[: requirements[0].cards]
    return tuple([Share(uuids[at], vendor, int(requirements[at].memory_mib), requirements[at].cores) for at in chosen])


@dataclass(frozen=True, slots=True)
class ContainerPlacer:
    """Places the containers of one pod on nodes.

    selector   which cards the pod accepts
    headroom   what its namespace's quota still allows
    scores_extra  whether what the vendor adds to the node's score is to be worked out
    """

    compiled: CompiledProfile
    policy: PlacementPolicy
    selector: CardSelector
    headroom: Headroom
    scores_extra: bool = True

    @property
    def rules(self) -> RuleOrder:
        """The vendor's checks."""
        return self.compiled.rules

    @property
    def _takes_all_that_fit(self) -> bool:
        """Whether cards are chosen among all that fit, more than are taken in the end."""
        return self.compiled.links_cards(self.policy) or self.compiled.is_hooked

    def share(self, node: NodeCopy, rows: Sequence[int], required: RequestColumns) -> ContainerShares:
        """Return the shares of a container that gets these cards, none of which is divided."""
        return tuple([self._share(node, row, required) for row in rows])

    def place(self, node: NodeCopy, containers: Sequence[PlacedContainer]) -> Placement | Unplaced:
        """Place all containers, or say why the first that does not fit does not.

        Init containers run one after another, so each sees the node without the others; regular containers and
        sidecars see everything placed before them. The node is left as it is.
        """
        running = node.copy()
        phases = [container.phase for container in containers]
        placed: list[ContainerShares] = [()] * len(containers)
        taken: list[list[TakenInstance | None]] = [[] for _ in containers]
        chosen: list[Chosen] = []
        turn = 0
        for phase in PHASES_IN_ORDER_OF_PLACING:
            for position, container in enumerate(containers):
                turn += container.phase is phase
                if container.phase is not phase or container.required is None or container.request is None:
                    continue
                required = self._keep_to_card(node, container.required, placed)
                exceeds = self._make_quota_test(running, required, placed, phases, position)
                rows = self._choose_rows(running, required, container.request, exceeds)
                if isinstance(rows, Refusal):
                    return Unplaced(rows, turn)
                where = running.copy() if phase is Phase.INIT else running
                placed[position], taken[position] = self._book(where, rows, required)
                chosen.append(Chosen(container.request, np.array([rows], np.int64)))
        return Placement(tuple(placed), _list_instances(placed, taken), self._score_extra(node, chosen, containers))

    def _keep_to_card(
        self, node: NodeCopy, required: RequestColumns, placed: Sequence[ContainerShares]
    ) -> RequestColumns:
        """Where the vendor wants it, refuse all cards but the one that the pod has already."""
        earlier = {share.uuid for shares in placed for share in shares}
        if not self.compiled.profile.fit.same_card or not earlier:
            return required
        others = np.array([earlier != {uuid} for uuid in node.uuids], bool)
        return msgspec.structs.replace(required, elsewhere=others)

    def _score_extra(self, node: NodeCopy, chosen: list[Chosen], containers: Sequence[PlacedContainer]) -> float:
        """Return what the vendor adds to the node's score; the cards are as they were before the pod."""
        if self.compiled.score is None or not self.scores_extra:
            return 0.0
        required = next(container.required for container in containers if container.required is not None)
        matrix = self._make_matrix(node, required, np.zeros(len(node.cards), np.uint8))
        terms = make_terms(self.compiled, self.selector, self.policy.node_word)
        return float(score_extra(self.compiled, matrix, chosen, terms, self.policy.node_policy)[0])

    def _make_matrix(self, node: NodeCopy, required: RequestColumns, codes: RuleCodes) -> CardMatrix:
        return make_matrix_of_node(self.compiled, self.policy, node.cards, required, codes, node.facts)

    def _choose_rows(
        self, node: NodeCopy, required: RequestColumns, request: Request, exceeds: QuotaTest | None
    ) -> list[int] | Refusal:
        return (
            self._choose_by_hook(node, required, request, exceeds)
            if self.compiled.is_hooked
            else self._choose(node, required, exceeds)
        )

    def _choose_by_hook(
        self, node: NodeCopy, required: RequestColumns, request: Request, exceeds: QuotaTest | None
    ) -> list[int] | Refusal:
        """Choose among all cards that fit, in the vendor's way."""
        vendor_columns, total = required.vendor_columns, len(node.cards)
        wanted = required.cards_at(0)
        if wanted > total:
            return refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)
        if vendor_columns is not None and vendor_columns.unserved.any():
            return Refusal({Reason.MODE_NOT_FIT: 1}, total)
        codes = self._judge(node.cards, required)
        if exceeds is not None:
            for row in range(total):
                if not 0 < codes[row] < self.rules.quota_at and exceeds([], row):
                    codes[row] = self.rules.quota_at
        matrix = self._make_matrix(node, required, codes)
        terms = make_terms(self.compiled, self.selector, self.policy.node_word)
        columns = choose_cards(self.compiled, matrix, request, terms)[0]
        if not wanted or columns[0] == NO_CARD:
            return explain_refusal(self.compiled, matrix, 0, request)
        found: list[int] = columns[:wanted].tolist()
        return found

    def _choose(self, node: NodeCopy, required: RequestColumns, exceeds: QuotaTest | None) -> list[int] | Refusal:
        """Choose rows for one container, a divided card once per instance."""
        if required.cards > len(node.cards) and not (node.partitions and self.selector.takes_instances):
            return refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)
        order = self._order(node, required)
        rows = order.tolist()
        ordered = OrderedCards(
            codes=self._judge(node.cards, required)[order].tolist(),
            numa=node.cards.numa[order].tolist(),
            uuids=[node.uuids[row] for row in rows],
            memory_mib=required.memory_mib[order].tolist(),
            partitions=[node.partitions.get(row) for row in rows],
        )
        terms = WalkTerms(
            cards=required.cards,
            rules=self.rules,
            numa_bind=self.policy.numa_bind,
            topology=self.compiled.links_cards(self.policy),
            pair_scores=node.pair_scores,
            exceeds_quota=None if exceeds is None else _in_places(exceeds, rows),
        )
        places = walk(ordered, terms)
        return places if isinstance(places, Refusal) else [rows[place] for place in places]

    def _order(self, node: NodeCopy, required: RequestColumns) -> Ints:
        return order_cards(node.cards, required, self.policy.card_policy.order, self.policy.weights)

    def _judge(self, cards: Cards, required: RequestColumns) -> RuleCodes:
        return filter_cards(cards, required, self.rules.numbered)

    def _make_quota_test(
        self,
        node: NodeCopy,
        required: RequestColumns,
        placed: Sequence[ContainerShares],
        phases: Sequence[Phase],
        position: int,
    ) -> QuotaTest | None:
        """Make the test of a quota that might be exceeded; None where it cannot be (scheduler 6.10)."""
        if self.headroom == UNBOUNDED or not self.rules.quota_at or not len(node.cards):
            return None
        held = self._hold(placed, phases)
        cards = required.cards_at(0)
        most_mib = held.memory_mib + cards * int(required.memory_mib.max(initial=0))
        most_cores = held.cores + cards * int(np.max(required.cores, initial=0))
        if most_mib <= self.headroom.memory_mib and most_cores <= self.headroom.cores:
            return None

        def exceeds(collected: Sequence[int], row: int) -> bool:
            if self._takes_all_that_fit:
                # More cards are collected than are taken in the end: all count as much as this one (B-09).
                usage = held + Usage(cards, cards * int(required.memory_mib[row]), cards * required.cores_at(row))
            else:
                asked = tuple(self._share(node, at, required) for at in (*collected, row))
                with_asked = [*placed[:position], asked, *placed[position + 1 :]]
                usage = self._hold(with_asked, phases)
            return usage.memory_mib > self.headroom.memory_mib or usage.cores > self.headroom.cores

        return exceeds

    def _hold(self, placed: Sequence[ContainerShares], phases: Sequence[Phase]) -> Usage:
        """Sum what the pod holds, as quotas count it."""
        return sum_for_quota(collapse(placed, phases).values(), bits=self.compiled.profile.fit.bits)

    def _book(
        self, node: NodeCopy, rows: Sequence[int], required: RequestColumns
    ) -> tuple[ContainerShares, list[TakenInstance | None]]:
        """Book one share a row; an instance of a divided card counts with what it really has."""
        shares: list[Share] = []
        instances: list[TakenInstance | None] = []
        for row in rows:
            share = self._share(node, row, required)
            partition = node.partitions.get(row)
            found = partition.take(share.memory_mib) if partition is not None else None
            if found is not None:
                node.partitions[row], taken = found
                node.cards.free_instance_mib[row] = node.partitions[row].largest_free_mib
                cores = share.cores if taken.cores is None else taken.cores
                uuid = encode_mig_instance(MigInstance(share.uuid, *taken.part)) if taken.part else share.uuid
                share = Share(uuid, share.vendor, taken.memory_mib, cores)
            instances.append(found[1] if found is not None else None)
            node.cards.used_slots[row] += share.slots
            node.cards.used_memory_mib[row] += share.memory_mib
            node.cards.used_cores[row] += share.cores
            shares.append(share)
        if self.compiled.is_hooked:
            self._note_tenants(node, rows, required)
        return tuple(shares), instances

    def _note_tenants(self, node: NodeCopy, rows: Sequence[int], required: RequestColumns) -> None:
        """Let later containers of the pod see how these cards are shared out; classes are those of other pods."""
        sum_groups(node.cards)
        if required.vendor_columns is None or required.vendor_columns.app_class == ONLINE:
            return
        for row in rows:
            if node.cards.policy[row] >= 0:
                node.cards.policy[row] = 0 if required.vendor_columns.whole else required.vendor_columns.policy

    def _share(self, node: NodeCopy, row: int, required: RequestColumns) -> Share:
        profile, cores = self.compiled.profile, required.cores_at(row)
        if profile.fit.bits:
            cores = allocate_core_bits(int(node.cards.used_cores[row]), int(node.cards.total_cores[row]), cores)
        word = node.model_of(row) if profile.share.typed_by_model else profile.word
        return Share(node.uuids[row], word, int(required.memory_mib[row]), cores, required.slots_at(row))


def allocate_core_bits(used: int, total: int, cores: int) -> int:
    """Return the mask of the cores that a container gets of a card whose cores are bits."""
    return 2**cores - 1 if not used else total & ~used


def _in_places(exceeds: QuotaTest, rows: Sequence[int]) -> QuotaTest:
    """The same test for places in the order in which cards are tried."""
    return lambda found, place: exceeds([rows[at] for at in found], rows[place])


def _list_instances(
    placed: Sequence[ContainerShares], taken: Sequence[Sequence[TakenInstance | None]]
) -> tuple[MigAllocation, ...]:
    """List the instances that stand in an annotation of their own: those of published profiles."""
    return tuple(
        MigAllocation(container, device, share.uuid, instance.profile, instance.placement)
        for container, (shares, instances) in enumerate(zip(placed, taken, strict=True))
        for device, (share, instance) in enumerate(zip(shares, instances, strict=True))
        if instance is not None and instance.placement is not None
    )
