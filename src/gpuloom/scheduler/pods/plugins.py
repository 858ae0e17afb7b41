"""The pods of device plugins: whether the one that a node's ``gpuloom.io/serves`` names runs there (binding 9).

Whoever wrote the annotation may be gone: an older plugin, or HAMi's, does not know it and leaves it there. So it
counts only while the pod that it names is seen on that node. It names a UID, so no tenant's pod makes it count.
"""

from collections.abc import Collection

from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import COMPONENT_LABEL, NODE_SERVES, PLUGIN_COMPONENT
from gpuloom.wire.objects import Node, Pod
from gpuloom.wire.serves import decode_serves


def is_plugin(pod: Pod) -> bool:
    """Whether a pod calls itself one of a device plugin."""
    return pod.labels.get(COMPONENT_LABEL) == PLUGIN_COMPONENT


class PluginPods:
    """The pods of device plugins that are bound to a node, neither over nor being deleted."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}

    def uids(self) -> Collection[str]:
        """Return the pods that are known."""
        return self._nodes.keys()

    def follow(self, pod: Pod) -> None:
        """Take a pod as it is now, of a plugin or any other."""
        if is_plugin(pod) and pod.spec.node_name and not pod.is_over and not pod.is_terminating:
            self._nodes[pod.metadata.uid] = pod.spec.node_name
        else:
            self.forget(pod.metadata.uid)

    def forget(self, uid: str) -> None:
        """Take that a pod is gone, or that nobody can read what it is now."""
        self._nodes.pop(uid, None)

    def serves(self, node: Node, vendors: Collection[str]) -> bool:
        """Whether a plugin runs on a node that needs no lock for pods of all these vendors, by their words."""
        text = node.annotations.get(NODE_SERVES)
        if not text or not vendors:
            return False
        try:
            said = decode_serves(text)
        except WireError:
            return False
        return said.vendors.issuperset(vendors) and self._nodes.get(said.plugin_uid) == node.name
