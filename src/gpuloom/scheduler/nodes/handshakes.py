"""Writing handshakes: the scheduler's question to a node's plugins, and taking it back (wire protocol 2.3).

Only the latest write for a node waits, so there is at most one a node. A write that fails is only logged: the next pass
over the nodes finds the same again. The pace of writes is limited, because all nodes of a large cluster are asked right
after a start, when calls wait already.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from gpuloom.kube import NODES, WRITE_DEADLINE_S, ApiError, KubeClient, RateLimit, RateLimiter
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.charge import StoppedError
from gpuloom.scheduler.nodes.health import HandshakeAction
from gpuloom.scheduler.sidebyside import do_side_by_side
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.handshake import encode_deleted, encode_requesting

PACE = RateLimit(qps=250, burst=250)
"""At most: 15,000 nodes take a minute."""
WRITES_AT_ONCE = 8
"""So the pace is kept where a write takes up to 32 ms."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class HandshakeWriter:
    """Writes what health found out; a process that is not in charge writes nothing."""

    client: KubeClient
    state: SchedulerState
    clocks: Clocks
    _pending: dict[str, Mapping[str, HandshakeAction]] = field(default_factory=dict)
    _work: asyncio.Event = field(default_factory=asyncio.Event)
    _pace: RateLimiter = field(init=False)

    def __post_init__(self) -> None:
        self._pace = RateLimiter(PACE, sleep=self.clocks.sleep, monotonic_s=self.clocks.monotonic)

    def note(self, node: str, actions: Mapping[str, HandshakeAction]) -> None:
        """Note what is to be written on a node, by annotation."""
        if not actions:
            self._pending.pop(node, None)
        else:
            self._pending[node] = actions
            self._work.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._work.wait()
            self._work.clear()
            await self.write_pending()

    async def write_pending(self) -> None:
        """Write what waits, in the order of the nodes' names, on several nodes at once but never twice on one."""
        while self._pending:
            await do_side_by_side(sorted(self._pending), self._write_next, at_once=WRITES_AT_ONCE)

    async def _write_next(self, node: str) -> None:
        if node in self._pending:
            await self._pace.keep()
        # While others were written, this one may have been settled or be gone.
        if (actions := self._pending.pop(node, None)) is not None:
            await self._write(node, actions)

    async def _write(self, node: str, actions: Mapping[str, HandshakeAction]) -> None:
        if not self.state.charge.is_ours:
            return
        metadata = {"annotations": {key: self._value(action) for key, action in actions.items()}}
        try:
            check = self.state.charge.check
            await self.client.patch(NODES, node, {"metadata": metadata}, timeout_s=WRITE_DEADLINE_S, recheck=check)
        except StoppedError:
            return
        except ApiError as error:
            _log.warning("handshake not written, tried again on the next pass", node=node, cause=str(error))

    def _value(self, action: HandshakeAction) -> str | None:
        if action is HandshakeAction.ASK:
            return encode_requesting(self.clocks.now())
        leaves_mark = action is HandshakeAction.CLEAN and self.state.settings.handshake_cleanup == "deleted"
        return encode_deleted(self.clocks.now()) if leaves_mark else None
