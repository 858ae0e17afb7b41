"""Questions to the plugins of very many nodes give way to calls (scheduler 8.2)."""

from typing import cast

from unit.scheduler.listening import Listening

from gpuloom.kube import KubeClient
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.nodes.handshakes import PACE, HandshakeWriter
from gpuloom.scheduler.nodes.health import HandshakeAction
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState

NODES = 3 * PACE.size


class Setting:
    """Handshakes with very many nodes to be asked at second 0; sleeping makes time pass."""

    def __init__(self) -> None:
        self.client = Listening()
        self.now = 0.0
        self.written_when_waiting: list[int] = []
        state = SchedulerState(SchedulerSettings())
        state.charge.since = 0.0
        clocks = Clocks(monotonic=lambda: self.now, sleep=self.sleep)
        self.handshakes = HandshakeWriter(cast("KubeClient", self.client), state, clocks)
        for number in range(NODES):
            self.handshakes.note(f"n{number:04}", {"hami.io/node-handshake": HandshakeAction.ASK})

    async def sleep(self, seconds: float) -> None:
        self.written_when_waiting.append(len(self.client.patched))
        self.now += seconds


async def test_no_more_nodes_are_asked_at_once_than_calls_can_bear() -> None:
    s = Setting()
    await s.handshakes.write_pending()
    assert s.written_when_waiting[0] == PACE.size


async def test_all_nodes_are_asked_while_their_answers_are_still_awaited() -> None:
    s = Setting()
    await s.handshakes.write_pending()
    assert (len(s.client.patched), round(s.now)) == (NODES, (NODES - PACE.size) / PACE.qps)
