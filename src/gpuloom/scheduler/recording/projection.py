"""What a recording may hold of an object: the fields that the scheduler reads, and no environment values (binding 6).

Annotations of other programs stay out: kubectl, for one, keeps whole manifests in one of its own.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from gpuloom.engine.state.foreign_pods import is_foreign
from gpuloom.scheduler.nodes.missingcards import READY
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.fullpods import EnvVar, FullContainer
from gpuloom.wire.keys import (
    BIND_PHASE,
    COMPONENT_LABEL,
    NODE_SERVES,
    PHASE_ALLOCATING,
    PHASE_SUCCESS,
    PLUGIN_COMPONENT,
    POD_GROUP_LABEL,
    VGPU_NODE,
)
from gpuloom.wire.objects import Container, KubeObject, Node, NodeSpec, NodeStatus, ObjectMeta, Pod, PodSpec, PodStatus

_PREFIXES = ("hami.io/", "nvidia.com/")
_PLUGIN = (COMPONENT_LABEL, PLUGIN_COMPONENT)


class Projection:
    """Cuts objects down to what decisions under these settings depend on."""

    def __init__(self, settings: SchedulerSettings) -> None:
        catalog = settings.catalog
        self._labels = {POD_GROUP_LABEL, VGPU_NODE, *settings.node_labels, *catalog.node_labels}
        self._keys = {*catalog.node_keys, *catalog.pod_keys, NODE_SERVES}
        self._owned = settings.owned_annotations
        self._to_allocate = {profile.write.to_allocate for profile in catalog}

    def project(self, item: KubeObject) -> dict[str, Any]:
        """Return the object as JSON values, without its kind."""
        match item:
            case Pod():
                item = self._cut_pod(item)
            case Node():
                item = self._cut_node(item)
            case _:
                item = msgspec.structs.replace(item, metadata=self._cut_metadata(item.metadata))
        value: dict[str, Any] = msgspec.to_builtins(item)
        return value

    def _cut_node(self, node: Node) -> Node:
        """Keep what decisions depend on, and what says that kube-scheduler offers the node to nobody."""
        status, conditions = node.status, node.status.conditions
        return Node(
            metadata=self._cut_metadata(node.metadata),
            spec=NodeSpec(unschedulable=node.spec.unschedulable),
            status=NodeStatus(
                allocatable=status.allocatable,
                capacity=status.capacity,
                conditions=None if conditions is None else [one for one in conditions if one.type == READY],
            ),
        )

    def _cut_pod(self, pod: Pod) -> Pod:
        spec = pod.spec
        return Pod(
            metadata=self._cut_metadata(pod.metadata),
            spec=PodSpec(
                node_name=spec.node_name,
                scheduler_name=spec.scheduler_name,
                runtime_class_name=spec.runtime_class_name,
                containers=_cut_containers(spec.containers),
                init_containers=_cut_containers(spec.init_containers),
                scheduling_group=spec.scheduling_group,
                scheduling_gates=spec.scheduling_gates,
                priority=spec.priority,
                preemption_policy=spec.preemption_policy,
            ),
            status=PodStatus(
                phase=pod.status.phase,
                start_time=pod.status.start_time if is_foreign(pod) or self._may_wait_for_plugin(pod) else None,
                init_container_statuses=pod.status.init_container_statuses,
            ),
        )

    def _may_wait_for_plugin(self, pod: Pod) -> bool:
        """Tell whether it depends on the kubelet's answer if the pod keeps its node busy (binding 9)."""
        phase = pod.annotations.get(BIND_PHASE)
        return phase == PHASE_ALLOCATING or (
            phase == PHASE_SUCCESS and len(self._to_allocate & pod.annotations.keys()) > 1
        )

    def _cut_metadata(self, metadata: ObjectMeta) -> ObjectMeta:
        return ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            creation_timestamp=metadata.creation_timestamp,
            deletion_timestamp=metadata.deletion_timestamp,
            labels=_keep(metadata.labels, self._is_label_kept),
            annotations=_keep(metadata.annotations, self._is_annotation_kept),
        )

    def _is_label_kept(self, key: str, value: str) -> bool:
        return key in self._labels or (key, value) == _PLUGIN

    def _is_annotation_kept(self, key: str, _: str) -> bool:
        return key in self._keys or key.startswith(_PREFIXES) or key in self._owned


def _keep(texts: Mapping[str, str] | None, is_kept: Callable[[str, str], bool]) -> dict[str, str] | None:
    return None if texts is None else {key: value for key, value in texts.items() if is_kept(key, value)}


def _cut_containers(containers: Iterable[Container] | None) -> list[Container] | None:
    return None if containers is None else [_cut_container(one) for one in containers]


def _cut_container(container: Container) -> Container:
    """Keep what the environment variables of a pod under review are called."""
    if not isinstance(container, FullContainer):
        return Container(
            name=container.name,
            resources=container.resources,
            security_context=container.security_context,
            restart_policy=container.restart_policy,
        )
    if container.env is None:
        return container
    return msgspec.structs.replace(container, env=[EnvVar(name=variable.name) for variable in container.env])
