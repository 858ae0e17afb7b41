"""Writing handshakes: the scheduler's question to a node's plugin, and taking it back (wire protocol 2.3).

The last word about a node counts, so what waits is never more than one write a node. A write that fails is only logged:
the next pass over the nodes finds the same again.
"""

import asyncio
from dataclasses import dataclass, field

import structlog

from gpuloom.kube import NODES, WRITE_DEADLINE_S, ApiError, KubeClient
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.health import Deed
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.handshake import encode_deleted, encode_requesting
from gpuloom.wire.keys import NODE_HANDSHAKE

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Handshakes:
    """Writes what health found out; a process that is not in charge writes nothing."""

    client: KubeClient
    state: SchedulerState
    clocks: Clocks
    _pending: dict[str, Deed] = field(default_factory=dict)
    _work: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, node: str, deed: Deed) -> None:
        """Note what is to be written on a node."""
        if deed is Deed.NOTHING:
            self._pending.pop(node, None)
        else:
            self._pending[node] = deed
            self._work.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._work.wait()
            self._work.clear()
            await self.write_pending()

    async def write_pending(self) -> None:
        """Write what waits, in the order of the nodes' names."""
        while self._pending:
            for node in sorted(self._pending):
                # Written on another node meanwhile, this one may be done or gone.
                if (deed := self._pending.pop(node, None)) is not None:
                    await self._write(node, deed)

    async def _write(self, node: str, deed: Deed) -> None:
        if not self.state.is_in_charge:
            return
        metadata = {"annotations": {NODE_HANDSHAKE: self._value(deed)}}
        try:
            await self.client.patch(NODES, node, {"metadata": metadata}, timeout_s=WRITE_DEADLINE_S)
        except ApiError as error:
            _log.warning("handshake not written, tried again on the next pass", node=node, cause=str(error))

    def _value(self, deed: Deed) -> str | None:
        if deed is Deed.ASK:
            return encode_requesting(self.clocks.now())
        leaves_mark = deed is Deed.CLEAN and self.state.settings.handshake_cleanup == "deleted"
        return encode_deleted(self.clocks.now()) if leaves_mark else None
