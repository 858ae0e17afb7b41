"""Nodes on which kube-scheduler may evict pods for one with cards, until it says which of them it chose.

It says so by the pod's ``status.nominatedNodeName``. From then on the pod is nominated here too, so that nobody takes
the cards for which others leave. Until then, for a moment, room is made on none of them for anybody else, nor are they
answered for another pod that is no more important: one victim would leave for two pods, and kube-scheduler would have
to evict others for the second.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuloom.wire.objects import Pod

MOST_PROMISED = 256
CHOOSES_WITHIN_S = 1.0
"""Ten times as long as an attempt of ours waits: that is too short for kube-scheduler where machines are busy."""
BELIEVED_S = 60.0
"""A node that is nominated later was not chosen because of the answer: nobody asks its victims to leave."""


@dataclass(frozen=True, slots=True)
class _Promise:
    """The pod's priority, who leaves each node, and until when kube-scheduler is expected to choose (monotonic s)."""

    priority: int
    victims: Mapping[str, frozenset[str]]
    until: float


@dataclass(slots=True)
class PromisedNodes:
    """By UID of the pod the nodes that kube-scheduler was answered, and who leaves each of them. Bounded.

    chosen   by UID the node that was chosen, until somebody takes it
    changed  set when there is a new one; whoever takes it clears it
    """

    chosen: dict[str, str] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _by_uid: dict[str, _Promise] = field(default_factory=dict)

    def note(self, uid: str, priority: int, victims: Mapping[str, frozenset[str]], now: float) -> None:
        """Take what kube-scheduler was answered for a pod: who leaves each node.

        now  monotonic seconds
        """
        self.forget(uid)
        self._by_uid[uid] = _Promise(priority, victims, now + CHOOSES_WITHIN_S)
        if len(self._by_uid) > MOST_PROMISED:
            self.forget(next(iter(self._by_uid)))

    def follow(self, pod: Pod, now: float) -> None:
        """Take a pod that waits, as it is now.

        now  monotonic seconds
        """
        uid, node = pod.metadata.uid, pod.status.nominated_node_name
        promise = self._by_uid.get(uid)
        if promise is None:
            return
        if now >= promise.until + BELIEVED_S:
            self.forget(uid)
        elif node in promise.victims:
            self.chosen[uid] = node
            self.changed.set()

    def find_undecided(self, now: float) -> frozenset[str]:
        """Return the nodes of which kube-scheduler is about to choose.

        now  monotonic seconds
        """
        return frozenset(node for one in self._by_uid.values() if one.until > now for node in one.victims)

    def find_promised_before(self, uid: str, priority: int, now: float) -> frozenset[str]:
        """Return those of them that kube-scheduler was answered for other pods, at least as important as this one.

        now  monotonic seconds
        """
        promises = [one for other, one in self._by_uid.items() if other != uid and one.priority >= priority]
        return frozenset(node for one in promises if one.until > now for node in one.victims)

    def take(self, uid: str) -> frozenset[str]:
        """Return who leaves the chosen node for a pod, once; nobody where nothing was promised."""
        node, promise = self.chosen.pop(uid, ""), self._by_uid.pop(uid, None)
        return promise.victims.get(node, frozenset()) if promise is not None else frozenset()

    def forget(self, uid: str) -> None:
        """Take that a pod is gone, or asked for anew."""
        self._by_uid.pop(uid, None)
        self.chosen.pop(uid, None)
