"""A pod that asks for cards of several vendors, of which a quota counts all under one name (scheduler 6.10)."""

from collections.abc import Mapping

import msgspec
import pytest
from builders import card
from msgspec.structs import replace

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.imagined import imagine_reservation
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.request.demand import Demands, read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.steps import run_to_end
from gpuloom.model.request_columns import UNBOUNDED
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.vendors.profile import Profile
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Container, ObjectMeta, Pod, PodSpec, ResourceQuota, ResourceQuotaSpec, Resources

CHIPS = ("Ascend910B3", "Ascend910B4-1")
MEMORY, CORES = "huawei.com/npu-memory", "huawei.com/npu-core"
WHOLE_MIB = 65536
NODES = NodeNames(msgspec.json.encode(["n1"]))


def name_alike(profile: Profile) -> Profile:
    """Let a chip's memory and cores be asked for by the names that the others have."""
    return replace(profile, resources=replace(profile.resources, memory=MEMORY, cores=CORES))


CATALOG = Catalog(tuple(name_alike(one) for one in load_default_profiles() if one.word in CHIPS))


def make_node(**limits: int) -> PodScheduler:
    """Make a node with two cards of each chip, and a quota of so much memory or cores."""
    pod_scheduler = PodScheduler(ClusterState(CATALOG), Options())
    for chip in CHIPS:
        cards = tuple(card(f"{chip}-{at}", index=at, memory_mib=WHOLE_MIB) for at in range(2))
        pod_scheduler.cluster_state.register("n1", chip, NodeCards(cards, facts={"hami-core": True}))
    named = {"memory_mib": f"limits.{MEMORY}", "cores": f"limits.{CORES}"}
    hard = {named[key]: str(amount) for key, amount in limits.items()}
    quota = ResourceQuota(metadata=ObjectMeta(name="q", namespace="ns"), spec=ResourceQuotaSpec(hard=dict(hard)))
    pod_scheduler.cluster_state.quotas.apply(quota)
    return pod_scheduler


def ask(name: str, asked: Mapping[str, int], *, containers: int = 1) -> Demands:
    """Read a pod whose containers ask for a card of each chip."""
    limits = {**{f"huawei.com/{chip}": "1" for chip in CHIPS}, **{key: str(amount) for key, amount in asked.items()}}
    made = [Container(name=f"c{at}", resources=Resources(limits=dict(limits))) for at in range(containers)]
    annotations = {"huawei.com/vnpu-mode": "hami-core"}
    meta = ObjectMeta(name=name, namespace="ns", uid=name, annotations=annotations)
    return read_demands(Pod(metadata=meta, spec=PodSpec(containers=made)), CATALOG, Options())


def place(pod_scheduler: PodScheduler, demands: Demands) -> Decision:
    """Decide as a Filter does, and reserve."""
    found = pod_scheduler.decide_among(demands, NODES)
    if found.node is not None:
        demand = next(iter(demands.values()))
        held = imagine_reservation(demand, found.node, found.shares, found.instances, found.extras)
        pod_scheduler.cluster_state.assume(held)
    return found


SHARE = {MEMORY: 10_000}


def test_of_two_pods_that_were_admitted_the_second_is_refused() -> None:
    pod_scheduler = make_node(memory_mib=30_000)
    place(pod_scheduler, ask("first", SHARE))
    found = place(pod_scheduler, ask("second", SHARE))
    assert {node: refusal.text for node, refusal in found.refusals.items()} == {"n1": "2/2 ResourceQuotaNotFit"}


def test_what_a_quota_just_allows_fits() -> None:
    pod_scheduler = make_node(memory_mib=40_000)
    assert [place(pod_scheduler, ask(name, SHARE)).node for name in ("first", "second")] == ["n1", "n1"]


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        ({"cores": 59}, {MEMORY: 10_000, CORES: 30}),
        ({"memory_mib": 2 * WHOLE_MIB - 1}, {}),
    ],
    ids=["cores", "all memory of cards"],
)
def test_each_vendor_is_left_what_the_other_does_not_take(limits: dict[str, int], asked: dict[str, int]) -> None:
    assert place(make_node(**limits), ask("p", asked)).node is None


def test_all_containers_of_a_pod_count() -> None:
    assert place(make_node(memory_mib=39_999), ask("p", SHARE, containers=2)).node is None
    assert place(make_node(memory_mib=40_000), ask("p", SHARE, containers=2)).node == "n1"


def test_whoever_asks_whether_a_node_takes_the_pod_is_told_the_same() -> None:
    pod_scheduler, demands = make_node(memory_mib=19_999), ask("p", SHARE)
    assert not pod_scheduler.takes(demands, "n1")
    assert not run_to_end(pod_scheduler.find_taking(demands))
    assert not pod_scheduler.has_capacity(demands)


def test_without_its_quota_the_pod_fits() -> None:
    demands = ask("p", SHARE)
    found = make_node(memory_mib=19_999).decide(demands, ("n1",), headrooms=dict.fromkeys(demands, UNBOUNDED))
    assert found.node == "n1"
