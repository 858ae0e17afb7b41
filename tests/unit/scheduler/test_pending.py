"""At whom it lies that a pod with cards waits: gpuloom, kube-scheduler before it, a gate, or nobody was asked yet."""

from typing import Any

import msgspec
import pytest

from gpuloom.scheduler.pods.pending import REFUSED_BEFORE, UNASKED, cause_of, look_for_pending, tell_hold, tell_wait
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.objects import GATED

TAINTED = "0/3 nodes are available: 3 node(s) had untolerated taint(s)."


def waiting(name: str = "p", reason: str = "", message: str = "", **spec: Any) -> HostPod:
    said = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    body = {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"containers": [container]} | spec,
        "status": {"conditions": [said] if reason else []},
    }
    return msgspec.convert(body, HostPod)


@pytest.fixture
def state() -> SchedulerState:
    return SchedulerState(SchedulerSettings())


@pytest.mark.parametrize(
    ("reason", "message", "cause", "told"),
    [
        ("", "", "unseen", UNASKED),
        ("Unschedulable", TAINTED, "node", REFUSED_BEFORE),
        ("Unschedulable", "0/3 nodes are available: 1 Insufficient cpu, 2 1/1 CardInsufficientMemory.", "cards", ""),
        ("Unschedulable", "0/3 nodes are available: 3 NodeUnfitPod.", "cards", ""),
        ("Unschedulable", "0/1 nodes are available: 1 its group g had cards and waits until more fit.", "cards", ""),
        ("Unschedulable", 'pod "p" rejected while waiting on permit: gang', "other", ""),
        ("SchedulerError", "Post http://127.0.0.1/filter: connection refused", "other", ""),
        (GATED, "Scheduling is blocked due to non-empty scheduling gates", "unseen", UNASKED),
    ],
)
def test_the_words_of_kube_scheduler_tell_who_refused(
    state: SchedulerState, reason: str, message: str, cause: str, told: str
) -> None:
    pod = waiting(reason=reason, message=message)
    assert (cause_of(state, pod), tell_wait(cause_of(state, pod))) == (cause, told)


def test_a_gate_holds_a_pod_back_whether_or_not_the_cluster_says_so(state: SchedulerState) -> None:
    pod = waiting(schedulingGates=[{"name": "demo/data"}, {"name": "demo/quota"}])
    assert cause_of(state, pod) == "gate"
    assert tell_hold(state, pod, 0.0) == (
        "is not scheduled before its scheduling gates demo/data, demo/quota are removed"
    )


@pytest.mark.parametrize("said", [{}, {"reason": "Unschedulable", "message": TAINTED}])
def test_a_pod_that_names_another_scheduler_is_left_to_it(said: dict[str, str]) -> None:
    state = SchedulerState(SchedulerSettings(scheduler_name="hami-scheduler"))
    pod = waiting(schedulerName="foo", **said)
    assert cause_of(state, pod) == "scheduler"
    assert tell_hold(state, pod, 0.0).startswith("is left to the scheduler that it names, foo;")


def test_whoever_asked_here_about_a_pod_places_it_whatever_its_name() -> None:
    state = SchedulerState(SchedulerSettings(scheduler_name="hami-scheduler"))
    pod = waiting(schedulerName="profile-2")
    state.waiting.note_refused(pod, state.settings.read_demands(pod), 1.0)
    assert (cause_of(state, pod), tell_hold(state, pod, 0.0)) == ("cards", "")


@pytest.mark.parametrize(("ours", "named"), [("", "foo"), ("foo", "foo"), ("foo", "")])
def test_nobody_is_said_to_be_another_scheduler_where_that_is_not_known(ours: str, named: str) -> None:
    state = SchedulerState(SchedulerSettings(scheduler_name=ours))
    assert cause_of(state, waiting(schedulerName=named)) == "unseen"


def test_what_was_refused_here_lies_at_the_cards(state: SchedulerState) -> None:
    pod = waiting(reason="Unschedulable", message=TAINTED)
    state.waiting.note_refused(pod, state.settings.read_demands(pod), 1.0)
    assert cause_of(state, pod) == "cards"


def test_those_wait_that_ask_for_cards_and_hold_none_and_every_pod_is_a_step(state: SchedulerState) -> None:
    plain = msgspec.structs.replace(waiting("plain"), spec=msgspec.structs.replace(waiting().spec, containers=[]))
    for pod in (waiting("a"), waiting("bound", nodeName="n1"), plain):
        state.shown.pods[pod.name] = pod
    refused = waiting("refused before its watch")
    state.waiting.note_refused(refused, state.settings.read_demands(refused), 1.0)
    assert [pod and pod.name for pod in look_for_pending(state)] == ["a", None, None, "refused before its watch"]
