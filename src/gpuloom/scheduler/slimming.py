"""What is kept of a bound pod: its name, where it is, and the little that is still read. There may be very many."""

import sys

from gpuloom.scheduler.labelling import label_of
from gpuloom.vendors.catalog import Catalog
from gpuloom.wire.keys import VGPU_NODE
from gpuloom.wire.objects import ObjectMeta, Pod, PodSpec


class Slimmer:
    """Cuts bound pods down: an unbound one is needed whole, for its Bind."""

    def __init__(self, catalog: Catalog) -> None:
        self._instances = catalog.instance_keys
        self._labels: dict[str, dict[str, str]] = {}

    def slim(self, pod: Pod) -> Pod:
        """Return the pod with what is read of it later: identity, version, node, node label, parts of cards."""
        meta, node = pod.metadata, sys.intern(pod.spec.node_name)
        instances = {key: pod.annotations[key] for key in self._instances if key in pod.annotations}
        return Pod(
            metadata=ObjectMeta(
                name=meta.name,
                namespace=sys.intern(meta.namespace),
                uid=meta.uid,
                resource_version=meta.resource_version,
                deletion_timestamp=meta.deletion_timestamp,
                labels=self._label(node) if VGPU_NODE in pod.labels else None,
                annotations=instances or None,
            ),
            spec=PodSpec(node_name=node),
        )

    def _label(self, node: str) -> dict[str, str]:
        """One value for all pods of a node."""
        if node not in self._labels:
            self._labels[node] = label_of(node)
        return self._labels[node]
