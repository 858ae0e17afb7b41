"""Trims bound pods to what is read later: name, node, and a few annotations. There may be very many."""

import sys

from gpuloom.scheduler.bind.podlabel import label_of
from gpuloom.vendors.catalog import Catalog
from gpuloom.wire.keys import VGPU_NODE
from gpuloom.wire.objects import MIRROR, ObjectMeta, Pod, PodSpec

_MOST_NAMINGS = 5_000
_MOST_SPECS = 100_000
"""So many different ones are shared; then sharing begins anew."""


class TrimmedPod(Pod, frozen=True):
    """A bound pod, and what its containers are called, in the order of every device list."""

    container_names: tuple[str, ...] = ()


class PodTrimmer:
    """Trims bound pods: an unbound one is needed whole, for its Bind."""

    def __init__(self, catalog: Catalog) -> None:
        self._kept = {*catalog.instance_keys, MIRROR}
        self._namings: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._specs: dict[str, tuple[PodSpec, dict[str, str]]] = {}

    def trim(self, pod: Pod) -> Pod:
        """Return the pod with what is read of it later: identity, version, node and its label, parts, static, names."""
        meta, annotations = pod.metadata, pod.annotations
        spec, label = self._spec_of(pod.spec.node_name)
        kept = {key: annotations[key] for key in self._kept if key in annotations}
        return TrimmedPod(
            metadata=ObjectMeta(
                name=meta.name,
                namespace=sys.intern(meta.namespace),
                uid=meta.uid,
                resource_version=meta.resource_version,
                deletion_timestamp=meta.deletion_timestamp,
                labels=label if VGPU_NODE in pod.labels else None,
                annotations=kept or None,
            ),
            spec=spec,
            container_names=self._name(pod),
        )

    def _name(self, pod: Pod) -> tuple[str, ...]:
        """Give the names of the containers: one value for all pods that call them so."""
        if isinstance(pod, TrimmedPod):
            return pod.container_names
        if len(self._namings) >= _MOST_NAMINGS:
            self._namings.clear()
        names = tuple(one.name for one in pod.all_containers)
        return self._namings.setdefault(names, names)

    def _spec_of(self, node: str) -> tuple[PodSpec, dict[str, str]]:
        """Give the spec and the label of the pods of a node: one value for all of them."""
        if node not in self._specs:
            if len(self._specs) >= _MOST_SPECS:
                self._specs.clear()
            node = sys.intern(node)
            self._specs[node] = PodSpec(node_name=node), label_of(node)
        return self._specs[node]
