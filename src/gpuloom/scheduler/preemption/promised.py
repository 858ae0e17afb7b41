"""Nodes on which kube-scheduler may evict pods for one with cards, until it says which of them it chose.

It says so by the pod's ``status.nominatedNodeName``. From then on the pod is nominated here too, so that nobody takes
the cards for which others leave. Until then, for a moment, room is made on none of them for anybody else: one victim
would leave for two pods, and kube-scheduler would have to evict others for the second.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuloom.wire.objects import Pod

MOST_PROMISED = 256
CHOOSES_WITHIN_S = 1.0
"""kube-scheduler chooses and writes its choice within milliseconds, where machines are busy within a few hundred."""


@dataclass(slots=True)
class PromisedNodes:
    """By UID of the pod the nodes that kube-scheduler was answered, and who leaves each of them. Bounded.

    chosen   by UID the node that was chosen, until somebody takes it
    changed  set when there is a new one; whoever takes it clears it
    """

    chosen: dict[str, str] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _by_uid: dict[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    _until: dict[str, float] = field(default_factory=dict)

    def note(self, uid: str, victims: Mapping[str, frozenset[str]], now: float) -> None:
        """Take what kube-scheduler was answered for a pod: who leaves each node.

        now  monotonic seconds
        """
        self.forget(uid)
        self._by_uid[uid], self._until[uid] = victims, now + CHOOSES_WITHIN_S
        if len(self._by_uid) > MOST_PROMISED:
            self.forget(next(iter(self._by_uid)))

    def follow(self, pod: Pod) -> None:
        """Take a pod that waits, as it is now."""
        uid, node = pod.metadata.uid, pod.status.nominated_node_name
        if node and node in self._by_uid.get(uid, {}):
            self.chosen[uid] = node
            self.changed.set()

    def find_open(self, now: float) -> frozenset[str]:
        """Return the nodes of which kube-scheduler is about to choose.

        now  monotonic seconds
        """
        return frozenset(node for uid, until in self._until.items() if until > now for node in self._by_uid[uid])

    def take(self, uid: str) -> frozenset[str]:
        """Return who leaves the chosen node for a pod, once; nobody where nothing was promised."""
        node, victims = self.chosen.get(uid, ""), self._by_uid.get(uid, {})
        self.forget(uid)
        return victims.get(node, frozenset())

    def forget(self, uid: str) -> None:
        """Take that a pod is gone, or asked for anew."""
        self._by_uid.pop(uid, None)
        self._until.pop(uid, None)
        self.chosen.pop(uid, None)
