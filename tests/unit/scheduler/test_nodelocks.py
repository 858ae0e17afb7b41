"""The locks of all nodes together, in a large cluster."""

import asyncio
from typing import Any

import pytest

from gpuloom.engine.state.unserved import UnservedPods
from gpuloom.scheduler import timeslice
from gpuloom.scheduler.bind.nodelock.locks import SWEEPS_AT_ONCE, NodeLocks
from gpuloom.scheduler.bind.nodelock.queue import LockQueue
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.pods.plugins import PluginPods
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.keys import NODE_LOCK
from gpuloom.wire.objects import Node, ObjectMeta

NODES = 50
LOCK = "2026-01-01T00:00:00Z,default,one"


class Patient:
    """An owner check to which no owner is over; it remembers which nodes it was asked about."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def is_due(self, _queue: LockQueue) -> bool:
        return True

    async def is_owner_over(self, _queue: LockQueue, node: str) -> bool:
        self.asked.append(node)
        return False


class Slow(Patient):
    """One that waits for an answer about each; ``most`` counts those that were asked about at once."""

    def __init__(self) -> None:
        super().__init__()
        self.underway = self.most = 0

    async def is_owner_over(self, queue: LockQueue, node: str) -> bool:
        self.underway += 1
        self.most = max(self.most, self.underway)
        for _turn in range(5):
            await asyncio.sleep(0)
        self.underway -= 1
        return await super().is_owner_over(queue, node)


def node(name: str, *, lock: str = "", version: str = "1") -> Node:
    return Node(metadata=ObjectMeta(name=name, resource_version=version, annotations={NODE_LOCK: lock} if lock else {}))


def locks_with(owner_check: Patient, clocks: Clocks | None = None) -> NodeLocks:
    nobody: Any = None
    stand_in: Any = owner_check
    settings = SchedulerSettings()
    return NodeLocks(nobody, settings, clocks or Clocks(), stand_in, UnservedPods(settings.catalog), PluginPods())


async def count_turns(locks: NodeLocks) -> int:
    """Sweep, and return how often others ran meanwhile."""
    sweep, turns = asyncio.create_task(locks.sweep()), 0
    while not sweep.done():
        turns += 1
        await asyncio.sleep(0)
    return turns


async def test_others_run_while_all_locks_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeslice, "SLICE_S", 0.0)
    locks = locks_with(Patient())
    locks.replace_nodes(node(f"n{number}", lock=LOCK) for number in range(NODES))
    assert await count_turns(locks) >= NODES


async def test_a_sweep_has_nothing_to_do_with_nodes_that_show_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeslice, "SLICE_S", 0.0)
    locks = locks_with(Patient())
    locks.replace_nodes(node(f"n{number}") for number in range(NODES))
    assert await count_turns(locks) <= 2


async def test_a_sweep_looks_at_every_lock_that_is_shown() -> None:
    owner_check = Patient()
    locks = locks_with(owner_check)
    locks.replace_nodes([node("listed", lock=LOCK), node("free"), node("changed")])
    locks.apply_node(node("changed", lock=LOCK, version="2"))
    await locks.sweep()
    assert owner_check.asked == ["listed", "changed"]


async def test_a_few_locks_are_looked_at_side_by_side() -> None:
    owner_check = Slow()
    locks = locks_with(owner_check)
    locks.replace_nodes(node(f"n{number}", lock=LOCK) for number in range(NODES))
    await locks.sweep()
    assert (owner_check.most, len(owner_check.asked)) == (SWEEPS_AT_ONCE, NODES)


async def test_a_lock_that_is_gone_is_not_looked_at_until_it_is_shown_again() -> None:
    owner_check = Patient()
    locks = locks_with(owner_check)
    locks.apply_node(node("one", lock=LOCK))
    locks.apply_node(node("one", version="2"))
    await locks.sweep()
    assert owner_check.asked == []
    locks.apply_node(node("one", lock=LOCK, version="3"))
    await locks.sweep()
    assert owner_check.asked == ["one"]


async def test_the_lock_of_a_node_that_is_gone_is_not_looked_at() -> None:
    owner_check = Patient()
    locks = locks_with(owner_check)
    locks.apply_node(node("one", lock=LOCK))
    locks.delete_node("one")
    await locks.sweep()
    assert owner_check.asked == []


def test_a_lock_is_held_since_the_watch_showed_it_and_another_one_begins_anew() -> None:
    now_s = 100.0
    locks = locks_with(Patient(), Clocks(monotonic=lambda: now_s))
    locks.apply_node(node("one", lock=LOCK))
    now_s = 160.0
    locks.apply_node(node("one", lock=LOCK, version="2"))
    assert locks.held() == [("one", NODE_LOCK, 60.0)]
    locks.apply_node(node("one", lock=LOCK.replace("one", "two"), version="3"))
    assert locks.held() == [("one", NODE_LOCK, 0.0)]
    locks.apply_node(node("one", version="4"))
    assert locks.held() == []
    locks.apply_node(node("one", lock=LOCK, version="5"))
    locks.delete_node("one")
    assert locks.held() == []
