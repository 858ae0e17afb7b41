"""Which cards of one node the containers of a pod get (scheduler 4.4, 6.1, 6.12)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuloom.engine.bench import Bench
from gpuloom.engine.demand import Choice, Phase
from gpuloom.engine.partitions import Taken
from gpuloom.engine.rules import Positions, RuleOrder, combine, judge
from gpuloom.engine.scores import order_cards, order_few
from gpuloom.engine.usage import NOTHING, Usage, collapse
from gpuloom.engine.walk import Terms, Trail, walk
from gpuloom.model.cards import Cards, Ints
from gpuloom.model.mig import MigAllocation, MigInstance
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.share import ContainerShares, Share
from gpuloom.model.want import Headroom, Want
from gpuloom.wire.mig import encode_mig_instance

PHASES_IN_ORDER_OF_PLACING = (Phase.SIDECAR, Phase.INIT, Phase.REGULAR)
"""Sidecars run beside all others, so they are placed first; what is booked (scheduler 4.5) then always fits."""


QuotaTest = Callable[[Sequence[int], int], bool]
"""Tells of rows collected and one more whether a container that got them would exceed the quota."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container of the pod: when it runs, and what it wants of each card; None for nothing."""

    phase: Phase
    want: Want | None


@dataclass(frozen=True, slots=True)
class Placement:
    """What the containers get, init containers first; instances of divided cards that are written separately."""

    shares: tuple[ContainerShares, ...]
    instances: tuple[MigAllocation, ...]


@dataclass(frozen=True, slots=True)
class Placer:
    """Places the containers of one pod on nodes.

    takes_instances  whether the pod accepts parts of divided cards
    headroom         what its namespace's quota still allows
    """

    vendor: str
    rules: RuleOrder
    choice: Choice
    takes_instances: bool
    headroom: Headroom

    def place_plain(
        self, cards: Sequence[Cards], uuids: Sequence[str], wants: Sequence[Want], verdicts: Sequence[int]
    ) -> ContainerShares:
        """Choose among cards of plain numbers those that no verdict rejects; there are enough of them."""
        free = [place for place, verdict in enumerate(verdicts) if not verdict]
        order = order_few(cards, wants, self.choice.card_policy.order, self.choice.weights, free)
        return tuple(
            [
                Share(uuids[place], self.vendor, int(wants[place].memory_mib), wants[place].cores)
                for place in order[: wants[0].cards]
            ]
        )

    def place(self, bench: Bench, containers: Sequence[Container]) -> Placement | Refusal:
        """Place all containers, or say why the first that does not fit does not.

        Init containers run one after another, so each sees the node without the others; regular containers and
        sidecars see everything placed before them. The bench is left as it is.
        """
        running = bench.copy()
        phases = [container.phase for container in containers]
        placed: list[ContainerShares] = [()] * len(containers)
        taken: list[list[Taken | None]] = [[] for _ in containers]
        for phase in PHASES_IN_ORDER_OF_PLACING:
            for position, container in enumerate(containers):
                if container.phase is not phase or container.want is None:
                    continue
                exceeds = self._make_quota_test(running, container.want, placed, phases, position)
                rows = self._choose(running, container.want, exceeds)
                if isinstance(rows, Refusal):
                    return rows
                where = running.copy() if phase is Phase.INIT else running
                placed[position], taken[position] = self._charge(where, rows, container.want)
        return Placement(tuple(placed), _list_instances(placed, taken))

    def _choose(self, bench: Bench, want: Want, exceeds: QuotaTest | None) -> list[int] | Refusal:
        """Choose rows for one container, a divided card once per instance."""
        if want.cards > len(bench.cards) and not (bench.partitions and self.takes_instances):
            return refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)
        policy = self.choice.card_policy
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
            topology=policy.topology,
            pair_scores=bench.pair_scores,
            exceeds_quota=None if exceeds is None else _in_places(exceeds, rows),
        )
        places = walk(trail, terms)
        return places if isinstance(places, Refusal) else [rows[place] for place in places]

    def _order(self, bench: Bench, want: Want) -> Ints:
        return order_cards(bench.cards, want, self.choice.card_policy.order, self.choice.weights)

    def _judge(self, cards: Cards, want: Want) -> Positions:
        return combine(judge(cards, want, self.rules.lasting), judge(cards, want, self.rules.passing))

    def _make_quota_test(
        self,
        bench: Bench,
        want: Want,
        placed: Sequence[ContainerShares],
        phases: Sequence[Phase],
        position: int,
    ) -> QuotaTest | None:
        """Make the test of a quota that might be exceeded; None where it cannot be (scheduler 6.10)."""
        held = sum(collapse(placed, phases).values(), NOTHING)
        most_mib = held.memory_mib + want.cards * int(want.memory_mib.max(initial=0))
        if most_mib <= self.headroom.memory_mib and held.cores + want.cards * want.cores <= self.headroom.cores:
            return None

        def exceeds(collected: Sequence[int], row: int) -> bool:
            if self.choice.card_policy.topology:
                # More cards are collected than are taken in the end: all count as much as this one (B-09).
                usage = sum([_one(row, want)] * want.cards, held)
            else:
                asked = tuple(self._share(bench, at, want) for at in (*collected, row))
                with_asked = [*placed[:position], asked, *placed[position + 1 :]]
                usage = sum(collapse(with_asked, phases).values(), NOTHING)
            return usage.memory_mib > self.headroom.memory_mib or usage.cores > self.headroom.cores

        return exceeds

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
            bench.cards.used_slots[row] += 1
            bench.cards.used_memory_mib[row] += share.memory_mib
            bench.cards.used_cores[row] += share.cores
            shares.append(share)
        return tuple(shares), instances

    def _share(self, bench: Bench, row: int, want: Want) -> Share:
        return Share(bench.uuids[row], self.vendor, int(want.memory_mib[row]), want.cores)


def _one(row: int, want: Want) -> Usage:
    return Usage(1, int(want.memory_mib[row]), want.cores)


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
