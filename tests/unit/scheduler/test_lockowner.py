"""The table of binding 3: when the owner of a lock is over."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from gpuloom.scheduler.bind.nodelock.owner import LocalKnowledge, is_allocating, is_over
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.vendors.profile import Profile
from gpuloom.wire.keys import NODE_LOCK
from gpuloom.wire.lock import NodeLock
from gpuloom.wire.objects import Pod

LOCKED = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
LOCK = NodeLock(LOCKED, "ns", "p")
UNIX = int(LOCKED.timestamp())
NOBODY = LocalKnowledge()
SHARING = [one for one in load_default_profiles() if one.lock.key == NODE_LOCK and one.write.to_allocate]
LISTS = {"hami.io/vgpu-devices-to-allocate", "hami.io/dcu-devices-to-allocate"}


def owner(
    *, node: str = "n1", phase: str = "Pending", created: str = "2026-01-01T11:00:00Z", **annotations: str
) -> Pod:
    body: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "ns", "creationTimestamp": created},
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }
    body["metadata"]["annotations"] = {f"hami.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return msgspec.convert(body, Pod)


def over(pod: Pod | None, *, age_s: float = 10, knowledge: LocalKnowledge = NOBODY) -> bool:
    return is_over(LOCK, pod, "n1", LOCKED + timedelta(seconds=age_s), knowledge, LISTS)


def served(**changes: str) -> Pod:
    said = {"bind_phase": "success", "bind_time": str(UNIX), "vgpu_devices_to_allocate": ";"}
    return owner(**said | changes)


def test_a_missing_owner_is_over() -> None:
    assert over(None)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_owner_that_ended_is_over(phase: str) -> None:
    assert over(owner(phase=phase))


def test_an_owner_bound_elsewhere_is_over() -> None:
    assert over(owner(node="n2"))


@pytest.mark.parametrize("node", ["n1", ""])
def test_an_owner_created_long_after_the_lock_is_another_pod(node: str) -> None:
    assert over(owner(node=node, created="2026-01-01T12:01:01Z"))


@pytest.mark.parametrize("node", ["n1", ""])
def test_an_owner_created_about_when_the_lock_was_set_is_its_owner(node: str) -> None:
    """trust T-08: another machine's clock said when it was created."""
    assert not over(owner(node=node, created="2026-01-01T12:01:00Z"))


def test_an_allocating_owner_is_none_of_the_same_name_however_late_it_was_created() -> None:
    """trust T-08."""
    assert not over(owner(created="2026-01-01T12:10:00Z", bind_phase="allocating"), age_s=3600)


@pytest.mark.parametrize(("changes", "is_at_work"), [({}, True), ({"node": "n2"}, False), ({"phase": "Failed"}, False)])
def test_a_pod_is_at_work_only_on_its_node_and_until_it_is_over(changes: dict[str, str], *, is_at_work: bool) -> None:
    assert is_allocating(owner(bind_phase="allocating", **changes), "n1") is is_at_work


@pytest.mark.parametrize("phase", ["success", "failed"])
def test_an_owner_with_nothing_left_to_allocate_is_over(phase: str) -> None:
    assert over(served(bind_phase=phase))


@pytest.mark.parametrize(
    "changes",
    [
        {"bind_phase": "allocating"},
        {"bind_phase": ""},
        {"bind_time": str(UNIX - 61)},
        {"bind_time": "yesterday"},
        {"vgpu_devices_to_allocate": "GPU-1,NVIDIA,100,0:;"},
        {"vgpu_devices_to_allocate": "GPU-1,x"},
        {"dcu_devices_to_allocate": "DCU-1,DCU,100,0:;"},
    ],
)
def test_an_owner_that_may_still_be_served_is_not_over(changes: dict[str, str]) -> None:
    assert not over(served(**changes))


@pytest.mark.parametrize(
    ("time", "expected"),
    [(datetime(1, 1, 1, tzinfo=UTC), True), (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), False)],
)
def test_a_lock_of_any_day_of_the_calendar_is_judged(time: datetime, *, expected: bool) -> None:
    assert is_over(NodeLock(time, "ns", "p"), served(), "n1", LOCKED, NOBODY, LISTS) is expected


@pytest.mark.parametrize("profile", SHARING, ids=lambda profile: profile.word)
def test_every_vendor_that_takes_the_common_lock_may_have_something_left_to_allocate(profile: Profile) -> None:
    assert profile.write.to_allocate in Catalog(tuple(load_default_profiles())).lists_under(NODE_LOCK)


def test_a_list_that_a_vendor_with_a_lock_of_its_own_leaves_says_nothing_about_the_common_lock() -> None:
    lists = Catalog(tuple(load_default_profiles())).lists_under(NODE_LOCK)
    assert not {key for key in lists if "mlu" in key}


def test_a_young_lock_of_an_unbound_owner_is_respected() -> None:
    """binding 3 owner unbound."""
    assert not over(owner(node=""), age_s=60)


@pytest.mark.parametrize(("age_s", "expected"), [(95, False), (96, True)])
def test_an_old_lock_of_an_unbound_owner_is_over(age_s: float, *, expected: bool) -> None:
    """35 s that a Bind may last, and 60 by which clocks may differ."""
    assert over(owner(node=""), age_s=age_s) is expected


def test_a_young_lock_is_over_when_this_process_would_know_the_bind() -> None:
    assert over(owner(node=""), knowledge=LocalKnowledge(would_know=True))


@pytest.mark.parametrize("age_s", [1, 100])
def test_a_lock_whose_bind_runs_here_is_not_over(age_s: float) -> None:
    assert not over(owner(node=""), age_s=age_s, knowledge=LocalKnowledge(binds_it=True, would_know=True))
