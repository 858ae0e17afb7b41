"""Small builders of cards, nodes and pods for tests; every value has a default that fits."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.request.demand import read_container_types, read_demand
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.model.card import Card
from gpuloom.model.mig import MigAllocation
from gpuloom.model.share import ContainerShares, Share
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.vendors.profile import Profile
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Container, ObjectMeta, Pod, PodSpec, Resources

NVIDIA = next(profile for profile in load_default_profiles() if profile.word == "NVIDIA")


def card(uuid: str, **facts: Any) -> Card:
    values: dict[str, Any] = {"count": 10, "memory_mib": 16384, "cores": 100, "model": "NVIDIA A40", "healthy": True}
    return Card(id=uuid, mode="hami-core", **values | facts)


def container(
    name: str = "main", *, requests: Mapping[str, Any] | None = None, sidecar: bool = False, **limits: Any
) -> Container:
    """A container that asks for ``gpu``, ``gpumem``, ``gpumem_percentage``, ``gpucores``."""
    return Container(
        name=name,
        restart_policy="Always" if sidecar else None,
        resources=Resources(
            limits={f"nvidia.com/{key.replace('_', '-')}": value for key, value in limits.items()},
            requests={f"nvidia.com/{key.replace('_', '-')}": value for key, value in (requests or {}).items()},
        ),
    )


def pod(
    *containers: Container,
    name: str = "p",
    namespace: str = "default",
    init: Sequence[Container] = (),
    annotations: Mapping[str, str] | None = None,
    **limits: Any,
) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=f"uid-{name}", annotations=dict(annotations or {})),
        spec=PodSpec(containers=list(containers) or [container(**limits)], init_containers=list(init)),
    )


class Engine:
    """A cluster and its decider: decides, reserves, and lets a test put usage on cards."""

    def __init__(self, nodes: Mapping[str, Sequence[Card]], profile: Profile = NVIDIA, /, **options: Any) -> None:
        self.options = Options(**options)
        self.pod_scheduler = PodScheduler(ClusterState(Catalog((profile,))), self.options)
        self.vendor_scheduler = self.pod_scheduler.by_vendor["NVIDIA"]
        self.cluster = self.vendor_scheduler.state
        for node, cards in nodes.items():
            self.cluster.register(node, NodeCards(tuple(cards)))

    def hold(self, node: str, uuid: str, *, memory_mib: int = 0, cores: int = 0, slots: int = 1, by: str = "") -> None:
        """Let somebody hold a part of a card, in so many containers."""
        first = Share(uuid, "NVIDIA", memory_mib, cores)
        shares = [(first,), *[(Share(uuid, "NVIDIA", 0, 0),)] * (slots - 1)]
        self.reserve(by or f"holder-{node}-{uuid}", node, shares)

    def reserve(
        self,
        uid: str,
        node: str,
        shares: Sequence[ContainerShares],
        *,
        of: Pod | None = None,
        instances: tuple[MigAllocation, ...] = (),
    ) -> Reservation:
        container_types = read_container_types(of) if of else ()
        return self.cluster.assume(
            Reservation(
                uid=uid,
                namespace=of.namespace if of else "other",
                name=uid,
                node=node,
                shares={"NVIDIA": tuple(shares)},
                container_types=container_types,
                status=ReservationStatus.ASSUMED,
                since=0.0,
                instances=instances,
            )
        )

    def decide(self, asked: Pod, *names: str, explain: bool = False) -> Decision:
        demand = read_demand(asked, NVIDIA, self.options)
        nodes = names or tuple(self.vendor_scheduler.state.table.positions)
        return self.vendor_scheduler.decide(demand, self.vendor_scheduler.look_up(nodes), explain=explain)

    def decide_among(self, asked: Pod, *, most_tries: int) -> Decision:
        names = msgspec.json.encode(list(self.vendor_scheduler.state.table.positions))
        demand = read_demand(asked, NVIDIA, self.options)
        return self.vendor_scheduler.decide_among(demand, NodeNames(names), most_tries=most_tries)

    def has_capacity(self, asked: Pod) -> bool:
        return self.vendor_scheduler.has_capacity(read_demand(asked, NVIDIA, self.options))

    def place(self, asked: Pod, *names: str) -> Decision:
        """Decide and reserve."""
        decision = self.decide(asked, *names)
        if decision.node is not None:
            uid = asked.metadata.uid
            self.reserve(uid, decision.node, decision.shares[NVIDIA.word], of=asked, instances=decision.instances)
        return decision

    def why(self, asked: Pod, node: str = "n1") -> str:
        """The refusal of a node."""
        return self.decide(asked, explain=True).refusals[node].text


def cards_of(decision: Decision) -> list[list[str]]:
    """Card ids by container."""
    return [[share.uuid for share in shares] for shares in decision.shares[NVIDIA.word]]
