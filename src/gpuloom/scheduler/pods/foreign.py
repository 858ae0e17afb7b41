"""Pods that hold devices and did not come through the scheduler close the cards that they may hold (trust T-03).

Nobody knows which cards those are: a device plugin that serves such a pod chooses for itself. So all cards of that
vendor on its node take no new pods until it is gone.
"""

from collections import Counter

import structlog

from gpuloom.engine.state.closings import Closing
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.foreign_pods import find_vendors_held
from gpuloom.wire.objects import Pod

CAUSE = "it came past the scheduler and holds devices of this node"

_log = structlog.get_logger(__name__)


class ForeignPods:
    """Closes cards for foreign pods; they open again when the pods are gone."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster

    def follow(self, pod: Pod) -> bool:
        """Take a bound pod that nobody here gave cards; tell whether it is foreign and holds devices."""
        vendors = find_vendors_held(pod, self._cluster.catalog)
        if vendors:
            cards = {word: frozenset[str]() for word in vendors}
            meta, node = pod.metadata, pod.spec.node_name
            if self._cluster.close(Closing(meta.uid, meta.namespace, meta.name, node, CAUSE, cards)):
                _log.error("cards take no new pods until a pod is gone", node=node, pod=pod.full_name, cause=CAUSE)
        return bool(vendors)

    def count(self) -> dict[str, int]:
        """Count by node the foreign pods that hold devices where the node has cards of such a vendor."""
        return Counter(one.node for one in self._cluster.closings_in_effect() if one.cause == CAUSE)
