import pytest

from gpuloom.local.queue.backlog import REFUSED_LIMIT_S, Backlog, SubQueue
from gpuloom.local.queue.pods import QueuedPod, QueuedSpec
from gpuloom.wire.objects import ObjectMeta


def make_pod(uid: str, *, priority: int = 0, annotations: dict[str, str] | None = None) -> QueuedPod:
    meta = ObjectMeta(name=uid, namespace="default", uid=uid, annotations=annotations)
    return QueuedPod(metadata=meta, spec=QueuedSpec(priority=priority))


@pytest.fixture
def backlog() -> Backlog:
    return Backlog(backoff_initial_s=1.0, backoff_max_s=10.0)


def take_uid(backlog: Backlog, now: float) -> str | None:
    pod = backlog.take(now)
    return pod.metadata.uid if pod else None


def test_pods_of_equal_priority_are_taken_in_the_order_of_their_arrival(backlog: Backlog) -> None:
    for uid in ("a", "b", "c"):
        backlog.put(make_pod(uid), 0)
    assert [take_uid(backlog, 0) for _ in range(4)] == ["a", "b", "c", None]


def test_a_higher_priority_goes_first(backlog: Backlog) -> None:
    backlog.put(make_pod("low"), 0)
    backlog.put(make_pod("high", priority=5), 0)
    assert take_uid(backlog, 0) == "high"


def test_a_dropped_pod_is_not_taken(backlog: Backlog) -> None:
    backlog.put(make_pod("a"), 0)
    backlog.drop("a")
    assert take_uid(backlog, 0) is None


def test_a_refused_pod_waits_although_its_backoff_is_over(backlog: Backlog) -> None:
    backlog.put(make_pod("a"), 0)
    backlog.take(0)
    backlog.refuse("a", 0)
    assert take_uid(backlog, 60) is None


def test_a_cluster_event_gives_a_refused_pod_another_try_after_its_backoff(backlog: Backlog) -> None:
    backlog.put(make_pod("a"), 0)
    backlog.take(0)
    backlog.refuse("a", 0)
    backlog.wake(0.5)
    assert [take_uid(backlog, 0.9), take_uid(backlog, 1.0)] == [None, "a"]


def test_a_cluster_event_after_the_backoff_makes_a_refused_pod_ready_at_once(backlog: Backlog) -> None:
    backlog.put(make_pod("a"), 0)
    backlog.take(0)
    backlog.refuse("a", 0)
    backlog.wake(30)
    assert backlog.sub_queue("a") is SubQueue.ACTIVE


def test_an_event_during_the_attempt_is_not_lost(backlog: Backlog) -> None:
    backlog.put(make_pod("a"), 0)
    backlog.take(0)
    backlog.wake(0.1)
    backlog.refuse("a", 0.2)
    assert backlog.sub_queue("a") is SubQueue.BACKOFF


def test_a_refused_pod_is_tried_again_after_five_minutes_without_any_event(backlog: Backlog) -> None:
    backlog.put(make_pod("a"), 0)
    backlog.take(0)
    backlog.refuse("a", 0)
    assert backlog.next_due() == REFUSED_LIMIT_S
    assert take_uid(backlog, REFUSED_LIMIT_S) == "a"


def test_the_backoff_doubles_up_to_its_limit(backlog: Backlog) -> None:
    backlog.put(make_pod("a"), 0)
    now, waits = 0.0, []
    for _ in range(6):
        backlog.take(now)
        backlog.fail("a", now)
        due = backlog.next_due()
        assert due is not None
        waits.append(due - now)
        now = due
    assert waits == [1, 2, 4, 8, 10, 10]


def test_a_changed_annotation_gives_a_refused_pod_another_try(backlog: Backlog) -> None:
    backlog.put(make_pod("a"), 0)
    backlog.take(0)
    backlog.refuse("a", 0)
    backlog.put(make_pod("a", annotations={"gpuloom.io/woken": "now"}), 20)
    assert backlog.sub_queue("a") is SubQueue.ACTIVE


def test_an_unchanged_pod_stays_refused(backlog: Backlog) -> None:
    backlog.put(make_pod("a"), 0)
    backlog.take(0)
    backlog.refuse("a", 0)
    backlog.put(make_pod("a"), 20)
    assert backlog.sub_queue("a") is SubQueue.UNSCHEDULABLE


def test_a_pod_that_changes_during_its_attempt_backs_off_instead_of_waiting(backlog: Backlog) -> None:
    backlog.put(make_pod("a"), 0)
    backlog.take(0)
    backlog.put(make_pod("a", annotations={"k": "v"}), 0)
    backlog.refuse("a", 0)
    assert backlog.sub_queue("a") is SubQueue.BACKOFF


def test_what_is_dropped_in_flight_stays_away(backlog: Backlog) -> None:
    backlog.put(make_pod("a"), 0)
    backlog.take(0)
    backlog.drop("a")
    backlog.fail("a", 0)
    assert backlog.sub_queue("a") is None


def test_a_dropped_pod_leaves_no_timer(backlog: Backlog) -> None:
    backlog.put(make_pod("a"), 0)
    backlog.take(0)
    backlog.refuse("a", 0)
    backlog.drop("a")
    assert backlog.next_due() is None
