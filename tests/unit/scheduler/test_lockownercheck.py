"""Locks that are in the way, and who may say that they are abandoned."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuloom.kube import NotFoundError
from gpuloom.scheduler.bind.nodelock.owner import UNBOUND_OWNER_LIMIT
from gpuloom.scheduler.bind.nodelock.ownercheck import OWNER_CHECK_S, LockOwnerCheck
from gpuloom.scheduler.bind.nodelock.queue import LockQueue
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.lock import NodeLock, encode_lock
from gpuloom.wire.objects import Node, ObjectMeta

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


class Setting:
    """A process in charge, until ``obstacle_after`` comes up while the API server is asked, which knows no pod."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.obstacle_after = ""
        self.state = SchedulerState(SchedulerSettings())
        self.state.charge.since = 0.0
        clocks = Clocks(monotonic=lambda: self.now_s, now=lambda: START + timedelta(seconds=self.now_s))
        client: Any = self
        self.owner_check = LockOwnerCheck(client, self.state, clocks)
        lock = encode_lock(NodeLock(START, "ns", "gone"))
        node = Node(metadata=ObjectMeta(name="n1", resource_version="1", annotations={"hami.io/mutex.lock": lock}))
        self.queue = LockQueue(node=node)

    async def get(self, *_: object, **__: object) -> None:
        self.state.charge.obstacle = self.obstacle_after
        raise NotFoundError("get", "pod ns/gone", 404, "no such pod")

    async def is_over_in(self, seconds: float) -> bool:
        self.now_s += seconds
        return await self.owner_check.is_owner_over(self.queue, "n1")


@pytest.mark.parametrize(("obstacle", "expected"), [("", True), ("another process leads", False)])
async def test_a_lock_is_removed_only_by_a_process_that_is_in_charge_when_the_answer_has_come(
    obstacle: str, *, expected: bool
) -> None:
    """binding 5: no new write starts when leadership ends."""
    s = Setting()
    assert not await s.is_over_in(0)
    s.obstacle_after = obstacle
    assert await s.is_over_in(3) is expected


def test_an_owner_is_due_when_no_bind_can_be_so_old_as_its_lock() -> None:
    s = Setting()
    s.now_s = 10.0
    assert not s.owner_check.is_due(s.queue)
    s.now_s += UNBOUND_OWNER_LIMIT.total_seconds() + 1
    assert s.owner_check.is_due(s.queue)


async def test_an_owner_that_was_asked_for_a_moment_ago_is_not_due() -> None:
    s = Setting()
    assert not await s.is_over_in(0)
    assert not s.owner_check.is_due(s.queue)
    s.now_s += OWNER_CHECK_S
    assert s.owner_check.is_due(s.queue)


@pytest.mark.parametrize("value", [",,gone", ",ns,"])
async def test_a_lock_that_names_no_pod_is_left_to_expire(value: str) -> None:
    """B-18: what cannot be read expires."""
    s = Setting()
    lock = encode_lock(NodeLock(START)) + value
    s.queue.node = Node(metadata=ObjectMeta(name="n1", resource_version="2", annotations={"hami.io/mutex.lock": lock}))
    assert not await s.is_over_in(0)
    assert not await s.is_over_in(3)
