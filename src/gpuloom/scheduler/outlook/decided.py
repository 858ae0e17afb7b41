"""The CPU of pods that have a node here and are not seen bound yet: in a burst these are many."""

from gpuloom.engine.hostfit.usage import HostUsage
from gpuloom.engine.state.ledger import Ledger

FEW = 256
"""So many pods are kept before it is asked which of them still count."""


class DecidedCpu:
    """Milli-cores by node of such pods. One leaves it when it is seen bound, decided anew, or given up.

    That is found out when somebody looks, and as often as their number doubles: perhaps nobody looks any more.
    """

    def __init__(self, ledger: Ledger, hosts: HostUsage) -> None:
        self._ledger = ledger
        self._hosts = hosts
        self._pods: dict[str, tuple[str, int]] = {}
        self._by_node: dict[str, int] = {}
        self._refresh_at = FEW

    def on(self, node: str) -> int:
        """Return what decided pods will take of a node."""
        return self._by_node.get(node, 0)

    def note(self, uid: str, node: str, cpu_milli: int) -> None:
        """Take that a pod was decided for."""
        if uid in self._pods:
            self._drop(uid)
        if len(self._pods) >= self._refresh_at:
            self.refresh()
            self._refresh_at = max(FEW, 2 * len(self._pods))
        if cpu_milli:
            self._pods[uid] = node, cpu_milli
            self._by_node[node] = self._by_node.get(node, 0) + cpu_milli
            self._hosts.touch(node)

    def refresh(self) -> None:
        """Forget the pods that count by themselves now, and those that hold nothing any more."""
        for uid, (node, _) in list(self._pods.items()):
            held = self._ledger.find(uid)
            if held is None or held.node != node or uid in self._hosts.on(node).pods:
                self._drop(uid)

    def _drop(self, uid: str) -> None:
        node, cpu_milli = self._pods.pop(uid)
        left = self._by_node.pop(node) - cpu_milli
        if left:
            self._by_node[node] = left
        self._hosts.touch(node)
