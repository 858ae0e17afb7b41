"""What pods of a local cluster use of their simulated cards: invented, the same for the same pod, and never still."""

import zlib
from collections.abc import Iterator

from gpuloom.engine.state.ledger import Reservation
from gpuloom.model.uuids import card_id
from gpuloom.scheduler.parts import Parts
from gpuloom.web.monitors.asking import MonitorAddress
from gpuloom.wire.monitors import MonitorReport, ReportedCard, ReportedPod

_MIB = 2**20
_PERIOD_S = 240
_LEAST, _MOST = 35, 95


class InventedUse:
    """Stands for the monitors of nodes with simulated NVIDIA cards; see ``MonitorSource``."""

    def __init__(self, parts: Parts, nodes: list[str]) -> None:
        self._parts = parts
        self._nodes = nodes

    async def find(self) -> list[MonitorAddress]:
        """Return all nodes."""
        return [MonitorAddress(node, f"local/{node}", "") for node in self._nodes]

    async def ask(self, monitor: MonitorAddress) -> MonitorReport:
        """Let each pod use a part of what it has."""
        ledger = self._parts.state.cluster.ledger
        pods = tuple(use for held in ledger.on_node(monitor.node) for use in self._use(held))
        return MonitorReport(tuple(self._list_cards(monitor.node, pods)), pods)

    def _use(self, held: Reservation) -> Iterator[ReportedPod]:
        for share, is_held in held.each_share():
            if is_held:
                uuid, percent = card_id(share.uuid), self._wave(held.uid + share.uuid)
                memory = share.memory_mib * _MIB * percent // 100
                yield ReportedPod(held.namespace, held.name, uuid, memory, share.cores * percent // 100)

    def _list_cards(self, node: str, pods: tuple[ReportedPod, ...]) -> Iterator[ReportedCard]:
        for table in self._parts.state.cluster.tables:
            registered = table.registered(node)
            for card in registered.cards if registered else ():
                own = [pod for pod in pods if pod.uuid == card.id]
                busy = min(sum(pod.busy_percent for pod in own), 100)
                yield ReportedCard(card.id, sum(pod.memory_bytes for pod in own), busy)

    def _wave(self, key: str) -> int:
        """Return a per cent that goes up and down; when, hangs on the key."""
        at = (self._parts.clocks.unix + zlib.crc32(key.encode())) % _PERIOD_S
        return _LEAST + (_MOST - _LEAST) * min(at, _PERIOD_S - at) * 2 // _PERIOD_S
