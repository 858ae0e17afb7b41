"""Which pods may be moved to make room for another one."""

from typing import Any

import msgspec
import pytest

from gpuloom.engine.state.budgets import Budgets
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.scheduler.defragmentation.cluster import MovingCluster, OwnedPod
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.keys import WEIGHTS

HELD = Reservation("u", "default", "p", "n1", {}, (), ReservationStatus.CONFIRMED, 0.0)


def may_move(owner: str, *, forced: bool = False, **meta: Any) -> bool:
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u-o"}] if owner else []
    limits = {"nvidia.com/gpu": "1"}
    known = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "ownerReferences": owners, **meta},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": limits}}]},
    }
    pods = {"u": msgspec.convert(known, OwnedPod)}
    return MovingCluster(SchedulerState(SchedulerSettings()), pods, Budgets(), forced).read_demands(HELD) is not None


@pytest.mark.parametrize(("owner", "moves"), [("ReplicaSet", True), ("DaemonSet", False), ("Node", False), ("", False)])
def test_pods_move_that_something_makes_anew_on_any_node(owner: str, *, moves: bool) -> None:
    assert may_move(owner) == moves


@pytest.mark.parametrize(("owner", "moves"), [("DaemonSet", False), ("Node", False), ("", True)])
def test_by_force_pods_move_that_nothing_makes_anew_but_none_that_come_back_to_their_node(
    owner: str, *, moves: bool
) -> None:
    assert may_move(owner, forced=True) == moves


def test_a_pod_that_is_being_deleted_is_not_moved() -> None:
    assert not may_move("ReplicaSet", deletionTimestamp="2026-11-21T12:00:00Z")


def test_a_pod_whose_weights_cannot_be_read_is_not_moved() -> None:
    assert not may_move("ReplicaSet", annotations={WEIGHTS: "heavy"})
