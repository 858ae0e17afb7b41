"""The locks of all nodes together, in a large cluster."""

import asyncio
from typing import Any

import pytest

from gpuloom.scheduler import pages
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.locks import NodeLocks
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.objects import Node, ObjectMeta

NODES = 50


async def test_others_run_while_all_locks_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_S", 0.0)
    nobody: Any = None
    locks = NodeLocks(nobody, SchedulerSettings(), Clocks(), nobody)
    locks.replace_nodes(Node(metadata=ObjectMeta(name=f"n{number}")) for number in range(NODES))
    sweep, turns = asyncio.create_task(locks.sweep()), 0
    while not sweep.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= NODES
