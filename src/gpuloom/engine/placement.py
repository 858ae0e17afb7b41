"""Which cards of one node the containers of a pod get (scheduler 4.4, 6.1, 6.12)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from gpuloom.engine.bench import Bench
from gpuloom.engine.dealing import choose, deal_one, make_terms, refuse, weigh
from gpuloom.engine.demand import PHASES_IN_ORDER_OF_PLACING, Choice, Phase, Selection
from gpuloom.engine.family import Family
from gpuloom.engine.partitions import Taken
from gpuloom.engine.policies import SPREAD
from gpuloom.engine.rules import ONLINE, Positions, RuleOrder, judge
from gpuloom.engine.scores import order_cards
from gpuloom.engine.tenants import sum_groups
from gpuloom.engine.usage import Usage, collapse, sum_for_quota
from gpuloom.engine.walk import Terms, Trail, walk
from gpuloom.model.cards import Cards, Ints
from gpuloom.model.hands import NO_CARD, Chosen, Hands
from gpuloom.model.mig import MigAllocation, MigInstance
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.request import Request
from gpuloom.model.share import ContainerShares, Share
from gpuloom.model.want import UNBOUNDED, Headroom, Want
from gpuloom.wire.mig import encode_mig_instance

QuotaTest = Callable[[Sequence[int], int], bool]
"""Tells of rows collected and one more whether a container that got them would exceed the quota."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container of the pod: when it runs, what it asks for, and what that is of each card; None for nothing."""

    phase: Phase
    request: Request | None
    want: Want | None


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
    vendor: str, uuids: Sequence[str], wants: Sequence[Want], verdicts: Sequence[int], keys: Sequence[tuple[Any, ...]]
) -> ContainerShares:
    """Choose among a node's cards those that no verdict rejects, smallest key first; there are enough of them."""
    order = sorted([place for place, verdict in enumerate(verdicts) if not verdict], key=keys.__getitem__)
    chosen = order[: wants[0].cards]
    return tuple([Share(uuids[at], vendor, int(wants[at].memory_mib), wants[at].cores) for at in chosen])


@dataclass(frozen=True, slots=True)
class Placer:
    """Places the containers of one pod on nodes.

    selection  which cards the pod accepts
    headroom   what its namespace's quota still allows
    weighs     whether anybody wants to know what the vendor adds to the node's score
    """

    family: Family
    choice: Choice
    selection: Selection
    headroom: Headroom
    weighs: bool = True

    @property
    def rules(self) -> RuleOrder:
        """The vendor's checks."""
        return self.family.rules

    @property
    def _takes_all_that_fit(self) -> bool:
        """Whether cards are chosen among all that fit, more than are taken in the end."""
        return self.family.links_cards(self.choice) or self.family.is_hooked

    def share(self, bench: Bench, rows: Sequence[int], want: Want) -> ContainerShares:
        """Return the shares of a container that gets these cards, none of which is divided."""
        return tuple([self._share(bench, row, want) for row in rows])

    def place(self, bench: Bench, containers: Sequence[Container]) -> Placement | Unplaced:
        """Place all containers, or say why the first that does not fit does not.

        Init containers run one after another, so each sees the node without the others; regular containers and
        sidecars see everything placed before them. The bench is left as it is.
        """
        running = bench.copy()
        phases = [container.phase for container in containers]
        placed: list[ContainerShares] = [()] * len(containers)
        taken: list[list[Taken | None]] = [[] for _ in containers]
        chosen: list[Chosen] = []
        turn = 0
        for phase in PHASES_IN_ORDER_OF_PLACING:
            for position, container in enumerate(containers):
                turn += container.phase is phase
                if container.phase is not phase or container.want is None or container.request is None:
                    continue
                want = self._keep_to_card(bench, container.want, placed)
                exceeds = self._make_quota_test(running, want, placed, phases, position)
                rows = self._choose_rows(running, want, container.request, exceeds)
                if isinstance(rows, Refusal):
                    return Unplaced(rows, turn)
                where = running.copy() if phase is Phase.INIT else running
                placed[position], taken[position] = self._charge(where, rows, want)
                chosen.append(Chosen(container.request, np.array([rows], np.int64)))
        return Placement(tuple(placed), _list_instances(placed, taken), self._weigh(bench, chosen, containers))

    def _keep_to_card(self, bench: Bench, want: Want, placed: Sequence[ContainerShares]) -> Want:
        """Where the vendor wants it, refuse all cards but the one that the pod has already."""
        earlier = {share.uuid for shares in placed for share in shares}
        if not self.family.profile.fit.same_card or not earlier:
            return want
        others = np.array([earlier != {uuid} for uuid in bench.uuids], bool)
        return msgspec.structs.replace(want, elsewhere=others)

    def _weigh(self, bench: Bench, chosen: list[Chosen], containers: Sequence[Container]) -> float:
        """Return what the vendor adds to the node's score; the cards are as they were before the pod."""
        if self.family.score is None or not self.weighs:
            return 0.0
        want = next(container.want for container in containers if container.want is not None)
        hands = self._deal(bench, want, np.zeros(len(bench.cards), np.uint8))
        terms = make_terms(self.family, self.selection, self.choice.node_policy)
        spread = self.choice.node_policy == SPREAD
        return float(weigh(self.family, hands, chosen, terms, spread=spread)[0])

    def _deal(self, bench: Bench, want: Want, codes: Positions) -> Hands:
        return deal_one(self.family, self.choice, bench.cards, want, codes, bench.facts)

    def _choose_rows(
        self, bench: Bench, want: Want, request: Request, exceeds: QuotaTest | None
    ) -> list[int] | Refusal:
        return (
            self._choose_by_hook(bench, want, request, exceeds)
            if self.family.is_hooked
            else self._choose(bench, want, exceeds)
        )

    def _choose_by_hook(
        self, bench: Bench, want: Want, request: Request, exceeds: QuotaTest | None
    ) -> list[int] | Refusal:
        """Choose among all cards that fit, in the vendor's way."""
        special, total = want.special, len(bench.cards)
        wanted = want.cards_at(0)
        if wanted > total:
            return refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)
        if special is not None and special.unserved.any():
            return Refusal({Reason.MODE_NOT_FIT: 1}, total)
        codes = self._judge(bench.cards, want)
        if exceeds is not None:
            for row in range(total):
                if not 0 < codes[row] < self.rules.quota_at and exceeds([], row):
                    codes[row] = self.rules.quota_at
        hands = self._deal(bench, want, codes)
        terms = make_terms(self.family, self.selection, self.choice.node_policy)
        columns = choose(self.family, hands, request, terms)[0]
        if not wanted or columns[0] == NO_CARD:
            return refuse(self.family, hands, 0, request)
        found: list[int] = columns[:wanted].tolist()
        return found

    def _choose(self, bench: Bench, want: Want, exceeds: QuotaTest | None) -> list[int] | Refusal:
        """Choose rows for one container, a divided card once per instance."""
        if want.cards > len(bench.cards) and not (bench.partitions and self.selection.takes_instances):
            return refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)
        order = self._order(bench, want)
        rows = order.tolist()
        trail = Trail(
            verdicts=self._judge(bench.cards, want)[order].tolist(),
            numa=bench.cards.numa[order].tolist(),
            uuids=[bench.uuids[row] for row in rows],
            memory_mib=want.memory_mib[order].tolist(),
            partitions=[bench.partitions.get(row) for row in rows],
        )
        terms = Terms(
            cards=want.cards,
            rules=self.rules,
            numa_bind=self.choice.numa_bind,
            topology=self.family.links_cards(self.choice),
            pair_scores=bench.pair_scores,
            exceeds_quota=None if exceeds is None else _in_places(exceeds, rows),
        )
        places = walk(trail, terms)
        return places if isinstance(places, Refusal) else [rows[place] for place in places]

    def _order(self, bench: Bench, want: Want) -> Ints:
        return order_cards(bench.cards, want, self.choice.card_policy.order, self.choice.weights)

    def _judge(self, cards: Cards, want: Want) -> Positions:
        return judge(cards, want, self.rules.placed)

    def _make_quota_test(
        self,
        bench: Bench,
        want: Want,
        placed: Sequence[ContainerShares],
        phases: Sequence[Phase],
        position: int,
    ) -> QuotaTest | None:
        """Make the test of a quota that might be exceeded; None where it cannot be (scheduler 6.10)."""
        if self.headroom == UNBOUNDED or not self.rules.quota_at or not len(bench.cards):
            return None
        held = self._hold(placed, phases)
        cards = want.cards_at(0)
        most_mib = held.memory_mib + cards * int(want.memory_mib.max(initial=0))
        most_cores = held.cores + cards * int(np.max(want.cores, initial=0))
        if most_mib <= self.headroom.memory_mib and most_cores <= self.headroom.cores:
            return None

        def exceeds(collected: Sequence[int], row: int) -> bool:
            if self._takes_all_that_fit:
                # More cards are collected than are taken in the end: all count as much as this one (B-09).
                usage = held + Usage(cards, cards * int(want.memory_mib[row]), cards * want.cores_at(row))
            else:
                asked = tuple(self._share(bench, at, want) for at in (*collected, row))
                with_asked = [*placed[:position], asked, *placed[position + 1 :]]
                usage = self._hold(with_asked, phases)
            return usage.memory_mib > self.headroom.memory_mib or usage.cores > self.headroom.cores

        return exceeds

    def _hold(self, placed: Sequence[ContainerShares], phases: Sequence[Phase]) -> Usage:
        """Sum what the pod holds, as quotas count it."""
        return sum_for_quota(collapse(placed, phases).values(), bits=self.family.profile.fit.bits)

    def _charge(self, bench: Bench, rows: Sequence[int], want: Want) -> tuple[ContainerShares, list[Taken | None]]:
        """Book one share a row; an instance of a divided card counts with what it really has."""
        shares: list[Share] = []
        instances: list[Taken | None] = []
        for row in rows:
            share = self._share(bench, row, want)
            partition = bench.partitions.get(row)
            found = partition.take(share.memory_mib) if partition is not None else None
            if found is not None:
                bench.partitions[row], taken = found
                bench.cards.free_instance_mib[row] = bench.partitions[row].largest_free_mib
                cores = share.cores if taken.cores is None else taken.cores
                uuid = encode_mig_instance(MigInstance(share.uuid, *taken.part)) if taken.part else share.uuid
                share = Share(uuid, share.vendor, taken.memory_mib, cores)
            instances.append(found[1] if found is not None else None)
            bench.cards.used_slots[row] += share.slots
            bench.cards.used_memory_mib[row] += share.memory_mib
            bench.cards.used_cores[row] += share.cores
            shares.append(share)
        if self.family.is_hooked:
            self._note_tenants(bench, rows, want)
        return tuple(shares), instances

    def _note_tenants(self, bench: Bench, rows: Sequence[int], want: Want) -> None:
        """Let later containers of the pod see how these cards are shared out; classes are those of other pods."""
        sum_groups(bench.cards)
        if want.special is None or want.special.app_class == ONLINE:
            return
        for row in rows:
            if bench.cards.policy[row] >= 0:
                bench.cards.policy[row] = 0 if want.special.whole else want.special.policy

    def _share(self, bench: Bench, row: int, want: Want) -> Share:
        profile, cores = self.family.profile, want.cores_at(row)
        if profile.fit.bits:
            cores = give_bits(int(bench.cards.used_cores[row]), int(bench.cards.total_cores[row]), cores)
        word = bench.model_of(row) if profile.share.typed_by_model else profile.word
        return Share(bench.uuids[row], word, int(want.memory_mib[row]), cores, want.slots_at(row))


def give_bits(used: int, total: int, cores: int) -> int:
    """Return the mask of the cores that a container gets of a card whose cores are bits."""
    return 2**cores - 1 if not used else total & ~used


def _in_places(exceeds: QuotaTest, rows: Sequence[int]) -> QuotaTest:
    """The same test for places in the order in which cards are tried."""
    return lambda found, place: exceeds([rows[at] for at in found], rows[place])


def _list_instances(
    placed: Sequence[ContainerShares], taken: Sequence[Sequence[Taken | None]]
) -> tuple[MigAllocation, ...]:
    """List the instances that stand in an annotation of their own: those of published profiles."""
    return tuple(
        MigAllocation(container, device, share.uuid, instance.profile, instance.placement)
        for container, (shares, instances) in enumerate(zip(placed, taken, strict=True))
        for device, (share, instance) in enumerate(zip(shares, instances, strict=True))
        if instance is not None and instance.placement is not None
    )
