"""Questions to the plugins of very many nodes give way to calls (scheduler 8.2)."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

from unit.scheduler.listening import Listening

from gpuloom.kube import KubeClient
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.nodes.handshakes import PACE, WRITES_AT_ONCE, HandshakeWriter
from gpuloom.scheduler.nodes.health import HandshakeAction
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState

NODES = 3 * PACE.size
ASK = {"hami.io/node-handshake": HandshakeAction.ASK}


class Slow(Listening):
    """A client whose writes take a few turns of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.on_the_way: Counter[str] = Counter()
        self.most_at_once = 0
        self.most_on_one_node = 0
        self.arrived = asyncio.Event()

    async def patch(self, _resource: object, name: str, _body: Mapping[str, Any], **_options: object) -> None:
        self.on_the_way[name] += 1
        self.most_at_once = max(self.most_at_once, self.on_the_way.total())
        self.most_on_one_node = max(self.most_on_one_node, self.on_the_way[name])
        self.arrived.set()
        for _turn in range(5):
            await asyncio.sleep(0)
        self.on_the_way[name] -= 1
        self.patched.append(name)


class Setting:
    """Handshakes with very many nodes to be asked at second 0; sleeping makes time pass."""

    def __init__(self, client: Listening, nodes: int = NODES) -> None:
        self.client = client
        self.now = 0.0
        self.written_when_waiting: list[int] = []
        state = self.state = SchedulerState(SchedulerSettings())
        state.charge.since = 0.0
        clocks = Clocks(monotonic=lambda: self.now, sleep=self.sleep)
        self.handshakes = HandshakeWriter(cast("KubeClient", self.client), state, clocks)
        for number in range(nodes):
            self.handshakes.note(f"n{number:04}", ASK)

    async def sleep(self, seconds: float) -> None:
        self.written_when_waiting.append(len(self.client.patched))
        self.now += seconds


async def test_no_more_nodes_are_asked_at_once_than_calls_can_bear() -> None:
    s = Setting(Listening())
    await s.handshakes.write_pending()
    assert s.written_when_waiting[0] == PACE.size


async def test_all_nodes_are_asked_while_their_answers_are_still_awaited() -> None:
    s = Setting(Listening())
    await s.handshakes.write_pending()
    assert (len(s.client.patched), round(s.now)) == (NODES, (NODES - PACE.size) / PACE.qps)


async def test_slow_answers_keep_only_few_writes_on_the_way_at_once() -> None:
    client = Slow()
    await Setting(client, 4 * WRITES_AT_ONCE).handshakes.write_pending()
    assert client.most_at_once == WRITES_AT_ONCE


async def test_a_node_that_is_to_be_asked_anew_while_it_is_written_is_written_again_afterwards() -> None:
    client = Slow()
    s = Setting(client, 2 * WRITES_AT_ONCE)
    writing = asyncio.create_task(s.handshakes.write_pending())
    await client.arrived.wait()
    s.handshakes.note("n0000", ASK)
    await writing
    assert (client.patched.count("n0000"), client.most_on_one_node) == (2, 1)


async def test_no_node_is_asked_whose_turn_comes_when_another_process_leads() -> None:
    """binding 5: no new write starts."""
    client = Listening()
    s = Setting(client, 3)
    client.before = lambda: setattr(s.state.charge, "obstacle", "another process leads")
    await s.handshakes.write_pending()
    assert client.patched == []
