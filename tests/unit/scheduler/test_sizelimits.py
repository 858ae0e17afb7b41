"""A pod's author chooses how much stands in it, also after its review: what is kept of it is bounded (trust T-02)."""

import json
import tracemalloc
from datetime import datetime
from typing import Any

import msgspec
import pytest
from builders import pod

from gpuloom.engine.hostfit.demand import read_host_demand
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.scheduler.parts import Parts
from gpuloom.scheduler.pods.handler import PodHandler
from gpuloom.scheduler.pods.mistyped import MOST_PARTS
from gpuloom.scheduler.recording.replayclient import ReplayClient, ReplayRecorder
from gpuloom.scheduler.recording.replayclock import ReplayClock
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.extender import FilterArgs
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.nodenames import NodeNames

MANY = 20_000
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GPU = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
TERM: dict[str, Any] = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
SPECS: dict[str, dict[str, Any]] = {
    "tolerations": {"tolerations": [{"operator": "Exists"}] * MANY},
    "selector": {"nodeSelector": {f"l{number}": "" for number in range(MANY)}},
    "node affinity": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM] * MANY}}}},
    "pod affinity": {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "a"}] * MANY}}},
    "pod anti-affinity": {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "a"}] * MANY}}},
    "ports": {"containers": [{**GPU, "ports": [{"containerPort": 1, "hostPort": 1}] * MANY}]},
    "spread": {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}] * MANY},
    "volumes": {"volumes": [*[{}] * MANY, {"persistentVolumeClaim": {"claimName": "a"}}]},
    "claims": {"resourceClaims": [{"name": f"c{number}"} for number in range(MANY)]},
    "gates": {"schedulingGates": [{"name": f"g{number}"} for number in range(MANY)]},
}


def refuse(state: SchedulerState, asking: HostPod) -> str:
    with pytest.raises(PolicyError) as refused:
        state.settings.read_demands(asking)
    return str(refused.value)


def host_pod(spec: dict[str, Any], name: str = "p", **metadata: Any) -> HostPod:
    identity = {"name": name, "namespace": "default", "uid": name}
    body = {"metadata": identity | metadata, "spec": {"containers": [GPU]} | spec}
    return msgspec.json.decode(json.dumps(body), type=HostPod)


@pytest.fixture
def state() -> SchedulerState:
    return SchedulerState(SchedulerSettings())


def held_after_taking(state: SchedulerState, spec: dict[str, Any], **metadata: Any) -> int:
    """Return how many bytes are held for one of three such pods that wait."""
    handler = PodHandler(state, lambda: 0.0)
    tracemalloc.start()
    for number in range(3):
        handler.apply(host_pod(spec, name=f"p{number}", **metadata))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held // 3


@pytest.mark.slow
@pytest.mark.parametrize("what", SPECS)
def test_little_is_kept_of_a_waiting_pod_with_very_many(state: SchedulerState, what: str) -> None:
    assert held_after_taking(state, SPECS[what]) < 150_000


@pytest.mark.slow
@pytest.mark.parametrize("what", ["labels", "annotations"])
def test_little_is_kept_of_a_waiting_pod_to_which_very_many_were_added(state: SchedulerState, what: str) -> None:
    assert held_after_taking(state, {}, **{what: {f"m{number}": "" for number in range(MANY)}}) < 150_000


@pytest.mark.slow
@pytest.mark.parametrize("key", ["example.com/notes", "nvidia.com/use-gputype"])
def test_little_is_kept_of_a_waiting_pod_with_a_very_long_annotation(state: SchedulerState, key: str) -> None:
    assert held_after_taking(state, {}, annotations={key: "z" * 2**18}) < 25_000


def test_a_wish_that_is_too_long_is_refused_in_the_same_words_when_little_of_it_is_kept(state: SchedulerState) -> None:
    whole = host_pod({}, annotations={"nvidia.com/use-gputype": "z" * 2**18}, labels={"app": "a"})
    cut = state.shown.size_limits.cut(whole)
    assert len(cut.annotations["nvidia.com/use-gputype"]) < 2**15
    assert cut.labels == {"app": "a"}
    assert [refuse(state, one) for one in (whole, cut)] == [refuse(state, whole)] * 2


@pytest.mark.parametrize("what", SPECS)
def test_the_same_is_judged_of_what_was_cut(state: SchedulerState, what: str) -> None:
    whole = host_pod(SPECS[what])
    assert read_host_demand(state.shown.size_limits.cut(whole)) == read_host_demand(whole)


def test_a_pod_of_usual_size_stays_as_it_is(state: SchedulerState) -> None:
    usual = host_pod({"tolerations": [{"operator": "Exists"}]}, labels={"app": "a"})
    assert state.shown.size_limits.cut(usual) is usual


def test_what_decisions_read_stays_whatever_stands_beside(state: SchedulerState) -> None:
    read = {
        "nvidia.com/use-gputype": "A100",
        "hami.io/gpu-scheduler-policy": "spread",
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,3000,0:;",
        "gpuloom.io/nominated": "n1;2026-11-21T15:09:56Z",
    }
    marks = {f"m{number}": "" for number in range(MANY)}
    group = {"scheduling.x-k8s.io/pod-group": "train"}
    cut = state.shown.size_limits.cut(host_pod({}, annotations=marks | read, labels=marks | group))
    assert (cut.annotations, cut.labels) == (read, group)


def test_a_decision_is_remembered_without_the_labels_of_its_pod() -> None:
    clock, client = ReplayClock(), ReplayClient()
    clock.set(datetime.fromisoformat("2026-05-04T08:00:00Z"))
    parts = Parts(SchedulerSettings(), client, clock.clocks, ReplayRecorder(client))
    parts.gate.note_listed()
    labels = {f"m{number}": "" for number in range(MANY)}
    asking = msgspec.structs.replace(pod(gpu=1), metadata=host_pod({}, labels=labels).metadata)
    parts.filter_verb.placer.filter(FilterArgs(asking, NodeNames(msgspec.json.encode(["n1"]))))
    (decided,) = parts.state.decisions
    assert (decided.pod.full_name, decided.pod.labels) == ("default/p", {})


def test_of_very_many_amounts_those_of_cards_stay(state: SchedulerState) -> None:
    amounts = {f"example.com/r{number}": "1" for number in range(MANY)}
    own = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "cpu": "2"}
    many = host_pod({"containers": [{"name": "main", "resources": {"limits": amounts | own}}]})
    cut = state.shown.size_limits.cut(many)
    assert cut.containers[0].limits == own
    assert state.settings.read_demands(cut) == state.settings.read_demands(many)
    assert read_host_demand(cut) == read_host_demand(many)


def test_a_pod_that_names_very_much_is_not_kept_for_its_odd_names(state: SchedulerState) -> None:
    handler = PodHandler(state, lambda: 0.0)
    for uid, count in (("few", 1), ("many", MOST_PARTS)):
        limits = {f"nvidia.com/r{number}": "1" for number in range(count)}
        handler.apply(host_pod({"containers": [{"name": "c", "resources": {"limits": limits}}]}, name=uid))
    assert state.shown.mistyped.uids() == ["few"]
