"""What the queue reads of pods and nodes, and the questions it asks about them. It decides nothing about cards."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import field

from gpuloom.engine.hostfit.demand import HostDemand
from gpuloom.engine.hostfit.filters import refuse_host
from gpuloom.engine.hostfit.usage import NodeUsage
from gpuloom.kube.resources import Resource
from gpuloom.wire.hostpods import HostPod, HostSpec
from gpuloom.wire.objects import KubeObject, Node, Pod

MANAGED_RESOURCES = frozenset(
    {
        "nvidia.com/gpu",
        "nvidia.com/gpumem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/gpucores",
        "nvidia.com/priority",
    }
)
"""``managedResources`` of the extender's configuration (wire protocol 1): other pods are bound without it."""


class QueuedSpec(HostSpec, frozen=True):
    """``spec`` of a pod, with what orders and limits its scheduling."""

    priority: int | None = None


class QueuedPod(HostPod, frozen=True):
    """A pod as the queue keeps it."""

    spec: QueuedSpec = QueuedSpec()

    @property
    def priority(self) -> int:
        """Higher goes first."""
        return self.spec.priority or 0


class WholePod(KubeObject, frozen=True, omit_defaults=False):
    """A pod as the API server sends it: an extender gets the whole object, not the parts that gpuloom reads."""

    api_version: str = "v1"
    kind: str = "Pod"
    metadata: dict[str, Any] = field(default_factory=dict)  # type: ignore[assignment]  # kept whole, to be sent on
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


QUEUED_PODS = Resource("", "v1", "pods", "Pod", QueuedPod, namespaced=True)
WHOLE_PODS = Resource("", "v1", "pods", "Pod", WholePod, namespaced=True)


def is_waiting(pod: QueuedPod, scheduler_name: str) -> bool:
    """Whether this scheduler has to find a node for the pod."""
    return (
        pod.spec.scheduler_name == scheduler_name
        and not pod.spec.node_name
        and not pod.spec.scheduling_gates
        and not pod.is_terminating
        and not pod.is_over
    )


def asks_extender(pod: QueuedPod, managed: frozenset[str] = MANAGED_RESOURCES) -> bool:
    """Whether a container names a managed resource, in limits or requests."""
    return any(not managed.isdisjoint({*container.limits, *container.requests}) for container in pod.all_containers)


def changes_its_chances(old: QueuedPod, new: QueuedPod) -> bool:
    """Whether an update of a waiting pod is worth another try; its status alone is not."""
    return (old.spec, old.annotations, old.labels) != (new.spec, new.annotations, new.labels)


def frees_room(old: Pod, new: Pod) -> bool:
    """Whether an update of an assigned pod may let another pod in."""
    return (old.annotations, old.labels, old.status.phase, old.is_terminating) != (
        new.annotations,
        new.labels,
        new.status.phase,
        new.is_terminating,
    )


def changes_offer(old: Node, new: Node) -> bool:
    """Whether an update of a node may let a pod in; a heartbeat may not."""
    return (old.spec, old.annotations, old.labels, old.status) != (new.spec, new.annotations, new.labels, new.status)


def refuse_node(node: Node, usage: NodeUsage, demand: HostDemand) -> Sequence[str]:
    """Say in kube-scheduler's words why the node is not offered to the extender; nothing when it is."""
    if refused := refuse_host(node, usage, demand):
        return refused
    if not any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions or ()):
        return ("node(s) were not ready",)
    return ()


def explain_refusal(refusals: Iterable[Sequence[str]]) -> str:
    """Write kube-scheduler's sentence from each node's reasons: ``0/3 nodes are available: 3 no.``."""
    told = list(refusals)
    counts = Counter(reason for reasons in told for reason in reasons)
    if not told:
        return "0/0 nodes are available."
    texts = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{len(told)} nodes are available: {texts}."


def set_condition(known: list[dict[str, Any]], reason: str, message: str) -> list[dict[str, Any]] | None:
    """Put the condition "not scheduled, because" among a pod's conditions; None when it stands there already."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    if any(condition.items() <= old.items() for old in known):
        return None
    return [*(old for old in known if old.get("type") != "PodScheduled"), condition]
