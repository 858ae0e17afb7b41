"""Pods that hold devices and did not come through the scheduler close the cards that they may hold (trust T-03).

Nobody knows which cards those are: a device plugin that serves such a pod chooses for itself. So all cards of that
vendor on its node take no new pods until it is gone.
"""

from collections import Counter

from gpuloom.engine.closings import Closing
from gpuloom.engine.foreign import find_vendors_held
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.objects import Pod

CAUSE = "it came past the scheduler and holds devices of this node"


class ForeignPods:
    """Closes cards for foreign pods, and opens them for those that are none any more.

    Those of a pod that is over or gone are opened as with all pods (:mod:`gpuloom.scheduler.state`).
    """

    def __init__(self, state: SchedulerState) -> None:
        self._state = state

    def see(self, pod: Pod) -> None:
        """Look at a bound pod as it is now."""
        cluster, uid = self._state.cluster, pod.metadata.uid
        if vendors := find_vendors_held(pod, self._state.settings.catalog):
            cards = {word: frozenset[str]() for word in vendors}
            cluster.close(Closing(uid, f"pod {pod.full_name}", pod.spec.node_name, CAUSE, cards))
        elif (closing := cluster.closings.find(uid)) is not None and closing.cause == CAUSE:
            cluster.reopen(uid)
            self._state.room.set()

    def count(self) -> dict[str, int]:
        """Count by node the foreign pods that hold devices where the node has cards of such a vendor."""
        cluster = self._state.cluster
        nodes = (
            closing.node
            for closing in cluster.closings
            if closing.cause == CAUSE and any(word in closing.cards for word in cluster.words_of(closing.node))
        )
        return Counter(nodes)
