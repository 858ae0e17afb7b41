"""The pods bound to a node, as its device plugin and its monitor read them: what nobody reads does not stay in memory.

Whoever may create pods chooses how large they are, and those that have ended stay bound until somebody deletes them.
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from dataclasses import replace

from gpuloom.kube.resources import FULL_PODS, Resource
from gpuloom.node.listsbeside import lists_beside
from gpuloom.node.replicas import is_instance_resource
from gpuloom.node.response import disables_control
from gpuloom.wire import keys
from gpuloom.wire.fullpods import FullContainer, FullMeta, FullPod, FullSpec, FullStatus
from gpuloom.wire.objects import MIRROR, Resources

_PAGE_SIZE = 20
"""The largest pods are of some megabytes, and the chart gives each program 512 MiB."""

_LONGEST_NAME = 253

_ANNOTATIONS = frozenset(
    {
        keys.VGPU_NODE,
        keys.BIND_PHASE,
        keys.DEVICES_TO_ALLOCATE,
        keys.DEVICES_ALLOCATED,
        keys.MIG_ALLOCATIONS,
        keys.LIMIT_WHOLE_CARDS,
        MIRROR,
    }
)


def bound_pods(*names: str, own_lists: AbstractSet[str] = frozenset()) -> Resource[FullPod]:
    """Return how pods are read by one who asks only for what their containers get of these resources.

    ``own_lists`` are the device lists of a user's own vendors that are read beside those of the shipped ones.
    """
    resources, annotations = frozenset(names), _ANNOTATIONS | lists_beside(own_lists)
    return replace(FULL_PODS, keep=lambda pod: _cut(pod, resources, annotations), page_size=_PAGE_SIZE)


def _cut(pod: FullPod, resources: Collection[str], annotations: Collection[str]) -> FullPod:
    return FullPod(metadata=_cut_meta(pod, annotations), spec=_cut_spec(pod, resources), status=_cut_status(pod))


def _cut_meta(pod: FullPod, annotations: Collection[str]) -> FullMeta:
    meta = pod.metadata
    return FullMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        deletion_timestamp=meta.deletion_timestamp,
        annotations={key: text for key, text in pod.annotations.items() if key in annotations},
    )


def _cut_spec(pod: FullPod, resources: Collection[str]) -> FullSpec:
    containers = [_cut_container(one, resources) for one in pod.containers]
    init_containers = [_cut_container(one, resources) for one in pod.init_containers]
    if pod.is_over:
        # Positions mean nothing any more: it holds nothing.
        containers = [one for one in (*init_containers, *containers) if one.resources]
        init_containers = []
    return FullSpec(
        node_name=pod.spec.node_name,
        # The API server takes one of any length.
        scheduler_name=pod.spec.scheduler_name[:_LONGEST_NAME],
        containers=containers,
        init_containers=init_containers,
    )


def _cut_container(container: FullContainer, resources: Collection[str]) -> FullContainer:
    return FullContainer(
        name=container.name,
        resources=_cut_limits(container, resources),
        restart_policy=container.restart_policy,
        env=[one for one in container.env or () if disables_control(one)][:1],
    )


def _cut_limits(container: FullContainer, resources: Collection[str]) -> Resources | None:
    """Keep the limits that are asked for, and one that says that the container has instances of others' making."""
    instance = next((name for name in container.limits if is_instance_resource(name)), "")
    kept = {name: amount for name, amount in container.limits.items() if name in resources or name == instance}
    return Resources(limits=kept) if kept else None


def _cut_status(pod: FullPod) -> FullStatus:
    status = pod.status
    return FullStatus(
        phase=status.phase,
        start_time=status.start_time,
        init_container_statuses=None if pod.is_over else status.init_container_statuses,
        container_statuses=None if pod.is_over else status.container_statuses,
    )
