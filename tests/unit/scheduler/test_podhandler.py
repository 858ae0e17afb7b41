"""Lists of pods that come while others are bound, and what is kept of a bound pod (binding 2.2)."""

from typing import Any

import msgspec
import pytest
from builders import card, pod

from gpuloom.engine.state.card_table import CardTable, NodeCards
from gpuloom.engine.state.nominations import Nomination
from gpuloom.engine.state.usage import collapse
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.gate import LeadershipGate
from gpuloom.scheduler.leadership.rivals import RivalLeases
from gpuloom.scheduler.pods.byannotation import PodHandlerByAnnotation
from gpuloom.scheduler.pods.handler import PodHandler
from gpuloom.scheduler.pods.mistyped import MOST_KEPT
from gpuloom.scheduler.preemption.promised import BELIEVED_S, CHOOSES_WITHIN_S
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.objects import Container, Pod, PodSpec

SHARE = "GPU-0,NVIDIA,3000,0:;"


def bound_pod(name: str, **metadata: Any) -> Pod:
    annotations = {"hami.io/vgpu-node": "n1", "hami.io/vgpu-devices-allocated": SHARE}
    identity = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "7"}
    body = {
        "metadata": identity | {"annotations": annotations} | metadata,
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "env": [{"name": "A", "value": "B"}]}]},
    }
    return msgspec.convert(body, Pod)


@pytest.fixture
def state() -> SchedulerState:
    return SchedulerState(SchedulerSettings())


@pytest.fixture
def handler(state: SchedulerState) -> PodHandler:
    return PodHandler(state, lambda: 0.0)


def test_a_pod_that_the_list_no_longer_names_gives_back_its_share(state: SchedulerState, handler: PodHandler) -> None:
    handler.apply(bound_pod("a"))
    handler.begin_list()
    handler.end_list()
    assert state.cluster.ledger.find("a") is None


def test_a_pod_bound_while_an_older_list_is_read_stays_counted(state: SchedulerState, handler: PodHandler) -> None:
    handler.begin_list()
    handler.apply(bound_pod("younger than the list"))
    handler.end_list()
    assert state.cluster.ledger.find("younger than the list") is not None


def test_a_bound_pod_is_reserved_for_with_its_priority_and_start(state: SchedulerState, handler: PodHandler) -> None:
    bound = bound_pod("a", creationTimestamp="1970-01-01T00:01:00Z")
    handler.apply(msgspec.structs.replace(bound, spec=msgspec.structs.replace(bound.spec, priority=1000)))
    held = state.cluster.ledger.find("a")
    assert held is not None
    assert (held.priority, held.started_at) == (1000, 60)


@pytest.mark.parametrize("kind", [PodHandler, PodHandlerByAnnotation])
def test_a_list_without_a_place_for_the_init_container_is_that_of_the_regular_ones(
    state: SchedulerState, kind: type[PodHandler]
) -> None:
    """HAMi up to 2.8 (wire protocol 3.2); counted as HAMi 2.10 does, the first share is an init container's."""
    spec = PodSpec(node_name="n1", init_containers=[Container("i")], containers=[Container("a"), Container("b")])
    pod = bound_pod("a", annotations={"hami.io/vgpu-node": "n1", "hami.io/vgpu-devices-allocated": SHARE * 2})
    kind(state, lambda: 0.0).apply(msgspec.structs.replace(pod, spec=spec))
    held = state.cluster.ledger.find("a")
    assert held is not None
    counted = collapse(held.shares["NVIDIA"], held.container_types)["GPU-0"].memory_mib
    assert counted == (6000 if kind is PodHandler else 3000)


def test_a_listed_pod_counts_before_the_list_is_complete(state: SchedulerState, handler: PodHandler) -> None:
    handler.begin_list()
    handler.take_listed(bound_pod("a"))
    assert state.cluster.ledger.find("a") is not None


def test_a_list_that_begins_again_forgets_nobody_of_the_first_try(state: SchedulerState, handler: PodHandler) -> None:
    handler.begin_list()
    handler.take_listed(bound_pod("a"))
    handler.begin_list()
    handler.take_listed(bound_pod("a"))
    handler.end_list()
    assert state.cluster.ledger.find("a") is not None


def test_of_a_bound_pod_only_what_is_read_later_is_kept(state: SchedulerState, handler: PodHandler) -> None:
    instances = {"hami.io/vgpu-mig-allocations": "[]", "hami.io/vgpu-node": "n1"}
    handler.apply(bound_pod("a", labels={"hami.io/vgpu-node": "n1", "app": "x"}, annotations=instances))
    kept = state.shown.pods["a"]
    assert (kept.full_name, kept.metadata.resource_version, kept.spec.node_name) == ("ns/a", "7", "n1")
    assert (dict(kept.labels), dict(kept.annotations)) == (
        {"hami.io/vgpu-node": "n1"},
        {"hami.io/vgpu-mig-allocations": "[]"},
    )
    assert kept.containers == []


@pytest.mark.parametrize("make", [PodHandler, PodHandlerByAnnotation], ids=["by binding", "by annotation"])
@pytest.mark.parametrize("annotations", [{}, {"hami.io/vgpu-node": "n1"}], ids=["by another", "by us"])
def test_a_pod_that_is_bound_waits_for_nothing(
    state: SchedulerState, make: type[PodHandler], annotations: dict[str, str]
) -> None:
    handler, asked = make(state, lambda: 0.0), pod(name="a", gpu=1)
    uid = asked.metadata.uid
    state.nominations.put(Nomination(uid, "ns", "a", "n1", 0, state.settings.read_demands(asked), 0))
    state.promised.note(uid, 0, {"n1": frozenset({"b"})}, 0.0)
    state.waiting.note_refused(asked, state.settings.read_demands(asked), 0.0)
    spec = msgspec.structs.replace(asked.spec, node_name="n1")
    metadata = msgspec.structs.replace(asked.metadata, annotations=annotations)
    handler.apply(msgspec.structs.replace(asked, spec=spec, metadata=metadata))
    assert len(state.nominations) == 0
    assert state.promised.find_undecided(0.0) == frozenset()
    assert uid not in state.waiting.unschedulable


def test_a_failed_pod_that_was_never_placed_is_forgotten_also_by_annotation(state: SchedulerState) -> None:
    handler, asked = PodHandlerByAnnotation(state, lambda: 0.0), pod(name="a", gpu=1)
    handler.apply(asked)
    handler.apply(msgspec.structs.replace(asked, status=msgspec.structs.replace(asked.status, phase="Failed")))
    assert asked.metadata.uid not in state.shown.pods


@pytest.mark.parametrize(("after_s", "is_chosen"), [(5.0, True), (CHOOSES_WITHIN_S + BELIEVED_S, False)])
def test_a_node_that_is_nominated_long_after_it_was_promised_was_not_chosen_for_that(
    state: SchedulerState, after_s: float, *, is_chosen: bool
) -> None:
    asked = pod(name="a", gpu=1)
    uid = asked.metadata.uid
    state.promised.note(uid, 0, {"n1": frozenset({"b"})}, 0.0)
    status = msgspec.structs.replace(asked.status, nominated_node_name="n1")
    PodHandler(state, lambda: after_s).apply(msgspec.structs.replace(asked, status=status))
    assert (uid in state.promised.chosen) is is_chosen


def table_of(state: SchedulerState) -> CardTable:
    """The table of a cluster with one node that has one card."""
    state.cluster.register("n1", "NVIDIA", NodeCards((card("GPU-0"),)))
    return state.cluster["NVIDIA"].table


def changes_while_listing(state: SchedulerState, handler: PodHandler, pods: int) -> int:
    table = table_of(state)
    before = table.change_log.mark
    handler.begin_list()
    for number in range(pods):
        handler.take_listed(bound_pod(f"p{number}"))
    handler.end_list()
    return table.change_log.mark - before


def test_a_node_with_many_listed_pods_is_summed_up_once(state: SchedulerState, handler: PodHandler) -> None:
    assert changes_while_listing(state, handler, 20) == 1
    assert table_of(state).cards.used_slots.tolist() == [20]


def test_while_this_process_decides_every_listed_pod_counts_at_once(state: SchedulerState, handler: PodHandler) -> None:
    state.charge.since = 0.0
    assert changes_while_listing(state, handler, 20) == 20


def test_pods_of_a_list_that_began_again_are_summed_up(state: SchedulerState, handler: PodHandler) -> None:
    table = table_of(state)
    handler.begin_list()
    handler.take_listed(bound_pod("a"))
    handler.begin_list()
    handler.end_list()
    handler.apply(bound_pod("b"))
    assert table.cards.used_slots.tolist() == [1]


def make_gate(state: SchedulerState) -> LeadershipGate:
    rivals = RivalLeases(("", ""), frozenset())
    return LeadershipGate(state, Clocks(), list_anew=lambda: None, wake=lambda: None, rivals=rivals)


async def test_who_takes_charge_while_a_list_is_read_sees_what_was_listed(
    state: SchedulerState, handler: PodHandler
) -> None:
    table = table_of(state)
    gate = make_gate(state)
    handler.begin_list()
    handler.take_listed(bound_pod("a"))
    gate.note_listed()
    handler.take_listed(bound_pod("b"))
    assert table.cards.used_slots.tolist() == [2]


async def test_who_takes_charge_has_scored_all_nodes_before_the_first_decision(
    state: SchedulerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = make_gate(state)
    for number in range(1000):
        state.cluster.register(f"n{number}", "NVIDIA", NodeCards((card("GPU-0"),)))
    gate.note_listed()
    monkeypatch.setattr("gpuloom.engine.state.node_scores.score_node", None)
    wanted = pod(name="p", gpu=1, gpumem=1000)
    assert (
        state.pod_scheduler.decide(state.settings.read_demands(wanted), [f"n{number}" for number in range(1000)]).node
        == "n0"
    )


def mistyped_pod(name: str, **spec: Any) -> Pod:
    asking = {"name": "c", "resources": {"limits": {"nvidia.com/gpus": "1"}}}
    body = {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"containers": [asking]} | spec}
    return msgspec.convert(body, Pod)


def test_a_mistyped_pod_that_the_list_no_longer_names_is_forgotten(state: SchedulerState, handler: PodHandler) -> None:
    handler.apply(mistyped_pod("a"))
    assert state.shown.mistyped.uids() == ["a"]
    handler.begin_list()
    handler.end_list()
    assert state.shown.mistyped.uids() == []


@pytest.mark.parametrize("annotations", [{}, {"hami.io/vgpu-node": "n1"}], ids=["plainly", "as one with cards"])
def test_a_mistyped_pod_that_somebody_binds_waits_no_more(
    state: SchedulerState, handler: PodHandler, annotations: dict[str, str]
) -> None:
    handler.apply(mistyped_pod("a"))
    bound = mistyped_pod("a", nodeName="n1")
    metadata = msgspec.structs.replace(bound.metadata, annotations=annotations)
    handler.apply(msgspec.structs.replace(bound, metadata=metadata))
    assert state.shown.mistyped.uids() == []


def test_no_more_mistyped_pods_are_kept_than_are_bounded(state: SchedulerState, handler: PodHandler) -> None:
    for number in range(MOST_KEPT + 1):
        handler.apply(mistyped_pod(str(number)))
    assert len(state.shown.mistyped.uids()) == MOST_KEPT


def test_pods_that_ask_for_no_vendors_resource_are_not_kept(state: SchedulerState, handler: PodHandler) -> None:
    container = {"name": "c", "resources": {"limits": {"cpu": "1", "example.com/x": "1"}}}
    handler.apply(mistyped_pod("a", containers=[container]))
    assert state.shown.mistyped.uids() == []
