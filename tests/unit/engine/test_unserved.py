"""Which nodes are busy with a pod that was bound and not served (binding 9)."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.state.unserved import LINGER_S, UnservedPod, UnservedPods, is_unserved
from gpuloom.vendors.catalog import load_default_profiles, make_catalog
from gpuloom.wire.keys import NODE_LOCK
from gpuloom.wire.objects import Pod

CATALOG = make_catalog(load_default_profiles())
LISTS = CATALOG.lists_under(NODE_LOCK)
ONE = "GPU-a,NVIDIA,1000,10:;"
DCU = "hami.io/dcu-devices-to-allocate"
PHASE = "hami.io/bind-phase"


def bound(uid: str = "u", node: str = "n1", *, phase: str = "allocating", started: bool = False, **facts: Any) -> Pod:
    annotations: dict[str, str] = facts.pop("annotations", {})
    known = {
        "hami.io/vgpu-node": "n1",
        PHASE: phase,
        "hami.io/vgpu-devices-to-allocate": ONE if phase == "allocating" else ";",
        "hami.io/vgpu-devices-allocated": ONE,
    }
    body = {
        "metadata": {"name": uid, "namespace": "ns", "uid": uid, "annotations": known | annotations},
        "spec": {"nodeName": node, "containers": [{"name": "c"}]},
        "status": {"startTime": "2026-01-01T00:00:00Z"} if started else facts.pop("status", {}),
    }
    return msgspec.convert(body, Pod)


def sent(uid: str = "u", node: str = "n1", since: float = 0.0) -> UnservedPod:
    return UnservedPod(uid, "ns", uid, node, frozenset({NODE_LOCK}), since)


@pytest.fixture
def unserved() -> UnservedPods:
    return UnservedPods(CATALOG)


def is_busy(unserved: UnservedPods, now: float = 0.0, node: str = "n1", lock: str = NODE_LOCK) -> bool:
    return unserved.blocker(node, lock, now) is not None


def test_a_node_is_busy_from_the_sending_of_a_binding_until_the_watch_shows_the_pod_served(
    unserved: UnservedPods,
) -> None:
    unserved.begin(sent())
    assert is_busy(unserved)
    unserved.follow(bound(), 1)
    assert is_busy(unserved)
    unserved.follow(bound(phase="success"), 2)
    assert not is_busy(unserved)


def test_a_binding_that_certainly_failed_frees_the_node(unserved: UnservedPods) -> None:
    unserved.begin(sent())
    unserved.give_up("u")
    assert not is_busy(unserved)


def test_a_binding_that_the_watch_has_shown_is_not_given_up(unserved: UnservedPods) -> None:
    unserved.begin(sent())
    unserved.follow(bound(), 1)
    unserved.give_up("u")
    assert is_busy(unserved)


def test_a_pod_that_was_served_before_its_bind_ended_does_not_come_back(unserved: UnservedPods) -> None:
    unserved.begin(sent())
    unserved.follow(bound(phase="success"), 1)
    unserved.give_up("u")
    assert len(unserved) == 0


def test_a_deleted_pod_keeps_its_node_busy_for_two_seconds(unserved: UnservedPods) -> None:
    unserved.follow(bound(), 0)
    unserved.note_gone("u", 10)
    assert is_busy(unserved, 10 + LINGER_S - 0.1)
    assert not is_busy(unserved, 10 + LINGER_S)


def test_a_pod_that_is_over_frees_its_node_at_once(unserved: UnservedPods) -> None:
    unserved.follow(bound(), 0)
    unserved.end("u")
    assert not is_busy(unserved)


def test_a_binding_without_a_lock_keeps_nobody_waiting(unserved: UnservedPods) -> None:
    unserved.begin(UnservedPod("u", "ns", "u", "n1", frozenset(), 0))
    assert len(unserved) == 0


def test_a_pod_that_is_bound_to_another_node_than_was_sent_keeps_that_one_busy(unserved: UnservedPods) -> None:
    unserved.begin(sent())
    unserved.follow(bound(node="n2", annotations={"hami.io/vgpu-node": "n2"}), 1)
    assert (is_busy(unserved), is_busy(unserved, node="n2")) == (False, True)


def test_a_pod_is_unserved_since_it_was_first_known(unserved: UnservedPods) -> None:
    unserved.begin(sent(since=3))
    unserved.begin(sent(since=5))
    unserved.follow(bound(), 8)
    assert [one.since for one in unserved.overdue(1, 100)] == [3]


def test_time_alone_frees_nothing_and_is_told(unserved: UnservedPods) -> None:
    unserved.follow(bound(), 0)
    assert is_busy(unserved, 1e9)
    assert [one.full_name for one in unserved.overdue(300, 301)] == ["ns/u"]
    assert unserved.overdue(300, 300) == []


def test_only_those_who_share_the_lock_are_kept_waiting(unserved: UnservedPods) -> None:
    unserved.follow(bound(), 0)
    assert not is_busy(unserved, lock="cambricon.com/dsmlu.lock")
    assert not is_busy(unserved, node="n2")


def test_whoever_waits_is_told_when_a_node_is_free(unserved: UnservedPods) -> None:
    told: list[str] = []
    unserved.on_free = told.append
    unserved.follow(bound("a"), 0)
    unserved.follow(bound("a", phase="success"), 1)
    unserved.begin(sent("b", "n2"))
    unserved.note_gone("b", 0)
    unserved.forget_gone(LINGER_S)
    assert told == ["n1", "n2"]


@pytest.mark.parametrize(
    ("pod", "waits"),
    [
        (bound(), True),
        (bound(phase="success"), False),
        (bound(phase="failed"), False),
        (bound(started=True), False),
        (bound(status={"phase": "Failed"}), False),
        (bound(node="n2"), False),
        (bound(annotations={PHASE: ""}), False),
        (bound(phase="success", annotations={DCU: "DCU-0,DCU,1,1:;"}), True),
        (bound(phase="success", annotations={DCU: ";"}), False),
        (bound(phase="failed", annotations={DCU: "DCU-0,DCU,1,1:;"}), False),
        (bound(phase="success", annotations={DCU: "not a list,"}), True),
        (bound(phase="success", started=True, annotations={DCU: "DCU-0,DCU,1,1:;"}), False),
        (bound(phase="success", annotations={"hami.io/vgpu-devices-to-allocate": ONE}), False),
    ],
)
def test_who_waits_for_a_device_plugin(pod: Pod, waits: bool) -> None:  # noqa: FBT001
    assert is_unserved(pod, LISTS) is waits


TENANTS = st.dictionaries(
    st.sampled_from(["nvidia.com/use-gpuuuid", "hami.io/gpu-scheduler-policy", "a/b", "hami.io/node-scheduler-policy"]),
    st.text(max_size=20),
)


@given(annotations=TENANTS)
def test_nothing_that_a_tenant_may_write_frees_a_node(annotations: dict[str, str]) -> None:
    unserved = UnservedPods(CATALOG)
    unserved.follow(bound(), 0)
    unserved.follow(bound(annotations=annotations), 1)
    assert is_busy(unserved)


def test_a_pod_that_is_shown_after_it_was_told_to_be_gone_keeps_its_node_busy(unserved: UnservedPods) -> None:
    unserved.begin(sent())
    unserved.note_gone("u", 0)
    unserved.follow(bound(), 1)
    assert is_busy(unserved, 1 + LINGER_S)


class Account:
    """What is to be known, in plain words: of each pod whether it was shown bound, and when it was deleted."""

    def __init__(self) -> None:
        self.shown: dict[str, bool] = {}
        self.gone: dict[str, float] = {}

    def pass_time(self, now: float) -> None:
        for uid in [uid for uid, since in self.gone.items() if now - since >= LINGER_S]:
            self.leave(uid)

    def leave(self, uid: str) -> None:
        self.shown.pop(uid, None)
        self.gone.pop(uid, None)

    def take(self, what: str, uid: str, now: float) -> None:
        if what == "begin":
            self.shown.setdefault(uid, False)
        elif what == "show":
            self.shown[uid] = True
            self.gone.pop(uid, None)
        elif what == "gone" and uid in self.shown:
            self.gone.setdefault(uid, now)
        elif what in {"serve", "start", "end"} or (what == "give up" and not self.shown.get(uid)):
            self.leave(uid)


def tell(unserved: UnservedPods, what: str, uid: str, now: float) -> None:
    tellers: dict[str, Callable[[], None]] = {
        "begin": lambda: unserved.begin(sent(uid, since=now)),
        "give up": lambda: unserved.give_up(uid),
        "show": lambda: unserved.follow(bound(uid), now),
        "serve": lambda: unserved.follow(bound(uid, phase="success"), now),
        "start": lambda: unserved.follow(bound(uid, started=True), now),
        "end": lambda: unserved.end(uid),
        "gone": lambda: unserved.note_gone(uid, now),
    }
    tellers[what]()


EVENTS = st.tuples(
    st.sampled_from(["begin", "give up", "show", "serve", "start", "end", "gone"]),
    st.sampled_from("abc"),
    st.floats(0, 3),
)


@given(events=st.lists(EVENTS, max_size=30))
def test_a_node_is_busy_as_long_as_one_pod_may_be_unserved(events: list[tuple[str, str, float]]) -> None:
    unserved, account, now = UnservedPods(CATALOG), Account(), 0.0
    for what, uid, passes_s in events:
        now += passes_s
        account.pass_time(now)
        unserved.forget_gone(now)
        account.take(what, uid, now)
        tell(unserved, what, uid, now)
        assert is_busy(unserved, now) == bool(account.shown)
        assert {one.uid for one in unserved} == account.shown.keys()
