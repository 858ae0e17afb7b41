"""The state that decisions are made from, and nothing else: no HTTP, no client, no objects of the API server."""

from sys import intern

from benchmarks.scheduling.generator import CARDS_PER_NODE, SLOTS
from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.filtering.compiled_profile import compile_profile
from gpuloom.engine.request.demand import ContainerType, read_demand
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.state.vendor_state import VendorState
from gpuloom.model.card import Card
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import load_default_profiles
from gpuloom.wire.objects import Container, ObjectMeta, Pod, PodSpec, Resources

CARD_MIB = 81920
SHAPES = 16


def fill_state(nodes: int, pods: int) -> VendorScheduler:
    """Make a cluster with so many nodes and pods with a share each, and let it decide about some shapes."""
    profile = next(one for one in load_default_profiles() if one.word == "NVIDIA")
    cluster = VendorState(profile)
    for number in range(nodes):
        cluster.register(_node(number), NodeCards(tuple(_make_card(number, place) for place in range(CARDS_PER_NODE))))
    for number in range(pods):
        cluster.assume(_make_reservation(number, nodes))
    vendor_scheduler = VendorScheduler(cluster, compile_profile(profile, Options()), Options())
    names = [_node(number) for number in range(nodes)]
    for shape in range(SHAPES):
        vendor_scheduler.decide(read_demand(_make_pod(shape), profile, Options()), vendor_scheduler.look_up(names))
    return vendor_scheduler


def _node(number: int) -> str:
    return intern(f"node-{number:05d}")


def _card_id(node: int, place: int) -> str:
    return f"GPU-{node:08x}-{place:04x}-4000-8000-000000000000"


def _make_card(node: int, place: int) -> Card:
    return Card(
        id=intern(_card_id(node, place)),
        index=place,
        count=SLOTS,
        memory_mib=CARD_MIB,
        cores=100,
        model="NVIDIA A100-SXM4-80GB",
        mode="hami-core",
        numa=place // 4,
        healthy=True,
    )


def _make_reservation(number: int, nodes: int) -> Reservation:
    """Make what a pod holds, as the scheduler does: texts of its own are new, those that others name are not."""
    node, place = number % nodes, number // nodes % CARDS_PER_NODE
    return Reservation(
        uid=f"{number:08x}-0000-4000-8000-000000000000",
        namespace=intern(f"team-{number % 50}"),
        name=f"worker-5d4f8c7b9-{number:06d}",
        node=_node(node),
        shares={"NVIDIA": ((Share(intern(_card_id(node, place)), "NVIDIA", 4096, 5),),)},
        container_types=(ContainerType.REGULAR,),
        status=ReservationStatus.CONFIRMED,
        since=0.0,
    )


def _make_pod(shape: int) -> Pod:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(1000 + shape)}
    container = Container(name="main", resources=Resources(limits=dict(limits)))
    return Pod(metadata=ObjectMeta(name="p", namespace="d", uid="u"), spec=PodSpec(containers=[container]))
