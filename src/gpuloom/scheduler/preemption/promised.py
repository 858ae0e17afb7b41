"""Nodes on which kube-scheduler may evict pods for one with cards, until it says which of them it chose.

It says so by the pod's ``status.nominatedNodeName``. From then on the pod is nominated here too, so that nobody takes
the cards for which others leave.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuloom.wire.objects import Pod

MOST_PROMISED = 256


@dataclass(slots=True)
class PromisedNodes:
    """By UID of the pod the nodes that kube-scheduler was answered, and who leaves each of them. Bounded.

    chosen   by UID the node that was chosen, until somebody takes it
    changed  set when there is a new one; whoever takes it clears it
    """

    chosen: dict[str, str] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _by_uid: dict[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)

    def note(self, uid: str, victims: Mapping[str, frozenset[str]]) -> None:
        """Take what kube-scheduler was answered for a pod: who leaves each node."""
        self.forget(uid)
        self._by_uid[uid] = victims
        if len(self._by_uid) > MOST_PROMISED:
            self.forget(next(iter(self._by_uid)))

    def follow(self, pod: Pod) -> None:
        """Take a pod that waits, as it is now."""
        uid, node = pod.metadata.uid, pod.status.nominated_node_name
        if node and node in self._by_uid.get(uid, {}):
            self.chosen[uid] = node
            self.changed.set()

    def take(self, uid: str) -> frozenset[str]:
        """Return who leaves the chosen node for a pod, once; nobody where nothing was promised."""
        node = self.chosen.pop(uid, "")
        return self._by_uid.pop(uid, {}).get(node, frozenset())

    def forget(self, uid: str) -> None:
        """Take that a pod is gone, or asked for anew."""
        self._by_uid.pop(uid, None)
        self.chosen.pop(uid, None)
