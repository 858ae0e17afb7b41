"""What the policy ``fragmentation`` looks at beside cards: who is told what, and when."""

import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import card

from gpuloom.engine.request.demand import ContainerType
from gpuloom.engine.scoring.fragmentation.pod_mix import ExpectedShape, PodMix
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.state.outlook import HostCpu
from gpuloom.model.share import Share
from gpuloom.scheduler.bind.moving import ReservationMover
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.observer import NOBODY
from gpuloom.scheduler.outlook.decided import FEW, DecidedCpu
from gpuloom.scheduler.outlook.file import WorkloadError, read_workload
from gpuloom.scheduler.outlook.keeper import OutlookKeeper, shape_of_demand
from gpuloom.scheduler.outlook.lines import ExpectedPods, read_mix, write_mix
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.objects import Node, NodeStatus, ObjectMeta

FRAGMENTATION = {"hami.io/node-scheduler-policy": "fragmentation"}
MUCH = 100_000
"""Bytes; what is kept whatever comes and goes, such as what was read of a pod, is a tenth of it."""
GIVEN = PodMix({ExpectedShape("NVIDIA", 4000, 1, memory_percent=50): 3, ExpectedShape(cpu_milli=500): 1})


def make_state(**settings: Any) -> SchedulerState:
    state = SchedulerState(SchedulerSettings(**settings))
    state.cluster.register("n1", "NVIDIA", NodeCards((card("GPU-1"),)))
    status = NodeStatus(allocatable={"cpu": "16"})
    state.shown.nodes["n1"] = Node(metadata=ObjectMeta(name="n1"), status=status)
    state.charge.since = 0.0
    state.shown.hosts.end_list()
    return state


def make_pod(
    name: str, cpu: str, node: str = "", annotations: Mapping[str, str] = FRAGMENTATION, **limits: str
) -> HostPod:
    resources = {"requests": {"cpu": cpu}, "limits": {f"nvidia.com/{key}": value for key, value in limits.items()}}
    metadata = {"name": name, "namespace": "ns", "uid": name, "annotations": dict(annotations)}
    spec = {"nodeName": node, "containers": [{"name": "c", "resources": resources}]}
    return msgspec.convert({"metadata": metadata, "spec": spec}, HostPod)


def hold(state: SchedulerState, uid: str, node: str = "n1") -> Reservation:
    """Reserve a card for a pod, as a decision does."""
    share = Share(f"GPU-{node[1:]}", "NVIDIA", 100, 0)
    return state.cluster.assume(
        Reservation(
            uid, "ns", uid, node, {"NVIDIA": ((share,),)}, (ContainerType.REGULAR,), ReservationStatus.ASSUMED, 0.0
        )
    )


def measure_kept(state: SchedulerState) -> int:
    """Return the bytes that pods leave that came and went, each on a node that there is not.

    The names of these nodes alone are half a megabyte.
    """
    tracemalloc.start()
    try:
        for number in range(2000):
            state.shown.hosts.apply(make_pod("a", "1", f"absent-{number:0200}"))
            state.shown.hosts.delete("a")
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_the_cpu_that_bound_pods_request_is_told_before_a_decision_that_looks_at_it() -> None:
    state = make_state()
    keeper = OutlookKeeper(state, Clocks())
    state.shown.hosts.apply(make_pod("a", "2500m", "n1"))
    keeper.refresh_cpu(state.settings.read_demands(make_pod("p", "1", gpu="1")))
    assert state.cluster.outlook.cpu("n1") == HostCpu(13_500, 16_000)
    state.shown.hosts.delete("a", "n1")
    keeper.refresh_cpu(state.settings.read_demands(make_pod("p", "1", gpu="1")))
    assert state.cluster.outlook.cpu("n1") == HostCpu(16_000, 16_000)


def test_a_pod_decided_for_takes_its_cpu_before_it_is_seen_bound_and_once_only() -> None:
    state, asked = make_state(), make_pod("p", "1", gpu="1")
    keeper = OutlookKeeper(state, Clocks())
    keeper.refresh_cpu(state.settings.read_demands(asked))
    hold(state, "a")
    keeper.note_decided(make_pod("a", "2500m", gpu="1"), "n1")
    for _ in range(2):
        keeper.refresh_cpu(state.settings.read_demands(asked))
        assert state.cluster.outlook.cpu("n1") == HostCpu(13_500, 16_000)
        state.shown.hosts.apply(make_pod("a", "2500m", "n1", gpu="1"))


def test_a_pod_that_gives_its_cards_back_gives_its_cpu_back() -> None:
    state, asked = make_state(), make_pod("p", "1", gpu="1")
    keeper = OutlookKeeper(state, Clocks())
    keeper.refresh_cpu(state.settings.read_demands(asked))
    hold(state, "a")
    keeper.note_decided(make_pod("a", "2500m", gpu="1"), "n1")
    keeper.refresh_cpu(state.settings.read_demands(asked))
    state.release("a")
    keeper.refresh_cpu(state.settings.read_demands(asked))
    assert state.cluster.outlook.cpu("n1") == HostCpu(16_000, 16_000)


def test_a_pod_decided_for_anew_takes_cpu_of_its_new_node_only() -> None:
    state, asked = make_state(), make_pod("p", "1", gpu="1")
    state.cluster.register("n2", "NVIDIA", NodeCards((card("GPU-2"),)))
    state.shown.nodes["n2"] = Node(metadata=ObjectMeta(name="n2"), status=NodeStatus(allocatable={"cpu": "16"}))
    keeper = OutlookKeeper(state, Clocks())
    state.shown.hosts.touch("n2")
    for node in ("n1", "n2"):
        keeper.refresh_cpu(state.settings.read_demands(asked))
        hold(state, "a", node)
        keeper.note_decided(make_pod("a", "2500m", gpu="1"), node)
    keeper.refresh_cpu(state.settings.read_demands(asked))
    cpu = state.cluster.outlook.cpu
    assert (cpu("n1").free, cpu("n2").free) == (16_000, 13_500)


def test_a_pod_that_follows_kube_scheduler_to_another_node_takes_its_cpu_along() -> None:
    state, asked = make_state(node_choice="scheduler"), make_pod("a", "2500m", gpu="1")
    state.cluster.register("n2", "NVIDIA", NodeCards((card("GPU-2"),)))
    state.shown.nodes["n2"] = Node(metadata=ObjectMeta(name="n2"), status=NodeStatus(allocatable={"cpu": "16"}))
    keeper = OutlookKeeper(state, Clocks())
    keeper.refresh_cpu(state.settings.read_demands(asked))
    held = hold(state, "a")
    keeper.note_decided(asked, "n1")
    ReservationMover(state, keeper, NOBODY.on_moved).move(asked, held, "n2")
    keeper.refresh_cpu(state.settings.read_demands(asked))
    cpu = state.cluster.outlook.cpu
    assert (cpu("n1").free, cpu("n2").free) == (16_000, 13_500)


def test_pods_decided_for_are_not_kept_for_ever_where_nobody_looks_at_the_cpu_any_more() -> None:
    state = make_state()
    decided = DecidedCpu(state.cluster.ledger, state.shown.hosts)
    hold(state, "kept")
    decided.note("kept", "n1", 1000)
    for number in range(2000):
        decided.note(f"gone-{number}", "n1", 1)
    assert 1000 <= decided.on("n1") <= 1000 + FEW


@pytest.mark.parametrize(
    ("settings", "annotations"), [({"count_node_cpu": False}, FRAGMENTATION), ({}, {})], ids=["switched-off", "binpack"]
)
def test_otherwise_the_cpu_of_nodes_stays_unknown(settings: dict[str, Any], annotations: dict[str, str]) -> None:
    state = make_state(**settings)
    state.shown.hosts.apply(make_pod("a", "2500m", "n1"))
    asked = make_pod("p", "1", annotations=annotations, gpu="1")
    OutlookKeeper(state, Clocks()).refresh_cpu(state.settings.read_demands(asked))
    assert not state.cluster.outlook.is_known


def test_the_names_of_absent_nodes_are_not_kept_where_nobody_looks_at_the_cpu() -> None:
    state = make_state()
    OutlookKeeper(state, Clocks())
    assert measure_kept(state) < MUCH


def test_the_names_of_absent_nodes_are_not_kept_between_two_looks_at_the_cpu() -> None:
    state = make_state()
    keeper = OutlookKeeper(state, Clocks())
    keeper.refresh_cpu(state.settings.read_demands(make_pod("p", "1", gpu="1")))
    assert measure_kept(state) < MUCH


def test_a_node_that_is_gone_is_told_once_and_not_kept() -> None:
    state, noted = make_state(), []
    keeper = OutlookKeeper(state, Clocks())
    keeper.note = lambda mix, cpu: noted.append((mix, dict(cpu)))
    asked = state.settings.read_demands(make_pod("p", "1", gpu="1"))
    keeper.refresh_cpu(asked)
    del state.shown.nodes["n1"]
    for _ in range(2):
        state.shown.hosts.touch("n1")
        keeper.refresh_cpu(asked)
    assert noted == [(None, {"n1": HostCpu(16_000, 16_000)}), (None, {"n1": None})]


async def test_pods_with_and_without_cards_are_learned_where_the_policy_is_in_use() -> None:
    state = make_state(node_scheduler_policy="fragmentation")
    keeper = OutlookKeeper(state, Clocks(monotonic=lambda: 5.0))
    for number in range(150):
        asked = make_pod(f"card-{number}", "4", annotations={}, gpu="1", gpucores="30", gpumem="4000")
        state.shown.pods[asked.metadata.uid] = asked
        keeper.see(asked, state.settings.read_demands(asked))
        state.shown.hosts.apply(make_pod(f"plain-{number}", "500m", "n1"))
    await keeper.learn()
    shape = ExpectedShape("NVIDIA", 4000, 1, memory_mib=4000, cores=30)
    assert state.cluster.outlook.mix == PodMix({shape: 150 * 64, ExpectedShape(cpu_milli=500): 150 * 64})


async def test_nothing_is_told_where_nobody_uses_the_policy() -> None:
    state = make_state()
    keeper = OutlookKeeper(state, Clocks(monotonic=lambda: 5.0))
    for number in range(300):
        state.shown.hosts.apply(make_pod(f"plain-{number}", "500m", "n1"))
    await keeper.learn()
    assert not state.cluster.outlook.is_known


async def test_pods_from_a_file_are_expected_whatever_is_seen() -> None:
    state = make_state(node_scheduler_policy="fragmentation", workload=GIVEN)
    keeper = OutlookKeeper(state, Clocks(monotonic=lambda: 5.0))
    for number in range(300):
        state.shown.hosts.apply(make_pod(f"plain-{number}", "500m", "n1"))
    await keeper.learn()
    assert state.cluster.outlook.mix == GIVEN


def test_what_the_engine_is_told_is_noted_once() -> None:
    state, noted = make_state(), []
    keeper = OutlookKeeper(state, Clocks())
    keeper.note = lambda mix, cpu: noted.append((mix, dict(cpu)))
    state.shown.hosts.touch("n1")
    for _ in range(2):
        keeper.refresh_cpu(state.settings.read_demands(make_pod("p", "1", gpu="1")))
    assert noted == [(None, {"n1": HostCpu(16_000, 16_000)})]


def test_a_mix_comes_back_as_it_was_written() -> None:
    assert read_mix(msgspec.convert(write_mix(GIVEN), list[ExpectedPods])) == GIVEN


def test_a_file_says_which_pods_are_to_come(tmp_path: Path) -> None:
    file = tmp_path / "workload.yaml"
    file.write_text(
        "- {count: 3, vendor: NVIDIA, cards: 1, cpuMilli: 4000, memoryPercent: 50}\n- {cpuMilli: 500}\n", "utf-8"
    )
    assert read_workload(file) == GIVEN


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "the workload has no pods: expected at least one"),
        ("- {cards: 1, cores: 10}", "entry 1: vendor is missing: name that of the cards, such as NVIDIA, or * for any"),
        ("- {cpuMilli: 5}\n- {vendor: NVIDIA, cards: 2, cores: 101}", "entry 2: cores 101 is not within 0 and 100"),
        ("- {gpus: 1}", "Object contains unknown field `gpus` - at `$[0]`"),
        ("- {count: 0}", "entry 1: count 0 is not within 1 and 1000000000"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "workload.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(WorkloadError) as raised:
        read_workload(file)
    assert str(raised.value) == f"--workload-file {file}: {said}"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="No such file"):
        read_workload(tmp_path / "none.yaml")


async def test_amounts_that_nobody_can_give_are_learned_as_the_most_that_counts() -> None:
    state = make_state(node_scheduler_policy="fragmentation")
    keeper = OutlookKeeper(state, Clocks(monotonic=lambda: 5.0))
    for number in range(200):
        asked = make_pod(f"p{number}", "9E", annotations={}, gpu="2000", gpucores="100", gpumem="2000000000")
        keeper.see(asked, state.settings.read_demands(asked))
    await keeper.learn()
    shape = ExpectedShape("NVIDIA", 2**40, 1024, memory_mib=2_000_000_000, cores=100)
    assert list(state.cluster.outlook.mix.counts) == [shape]
    asked = make_pod("p", "9E", gpu="1", gpumem="1000")
    keeper.refresh_cpu(state.settings.read_demands(asked))
    assert state.pod_scheduler.decide(state.settings.read_demands(asked), ("n1",)).node == "n1"


def test_of_very_many_and_long_models_a_shape_keeps_little() -> None:
    wild = ",".join(f"{number:0100}" for number in range(150))
    annotations = {"nvidia.com/use-gputype": wild, "nvidia.com/nouse-gputype": wild}
    asked = make_pod("p", "1", annotations=annotations, gpu="1")
    shape = shape_of_demand("NVIDIA", make_state().settings.read_demands(asked)["NVIDIA"], asked)
    assert sum(map(len, shape.models + shape.not_models)) == 2 * 16 * 64
