"""The resync of all nodes (scheduler 8.1): it catches what time changes, and what could not be written."""

import asyncio
from dataclasses import dataclass, field

from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.rolelabel import RoleLabels
from gpuloom.scheduler.nodes.handler import NodeHandler
from gpuloom.scheduler.observer import NOBODY, ProcessObserver


@dataclass(slots=True)
class NodeResync:
    """Resyncs every ``interval_s``, or at once when something of importance has changed."""

    nodes: NodeHandler
    role_labels: RoleLabels
    clocks: Clocks
    interval_s: float
    observer: ProcessObserver = NOBODY
    _due: asyncio.Event = field(default_factory=asyncio.Event)

    def trigger(self) -> None:
        """Make the next resync follow at once; asking twice makes one."""
        self._due.set()

    async def run(self) -> None:
        """Resync until cancelled."""
        self.role_labels.warn_if_disabled()
        while True:
            await self.clocks.wait(self._due, self.interval_s)
            self._due.clear()
            self.observer.on_resync()
            await self.nodes.resync_all()
            await self.role_labels.label()
