"""The parts of Kubernetes' objects that gpuloom reads, as structs decoded straight from bytes.

Unknown fields are skipped by the decoder, so a decoded object must never be sent back to an API server. Lists and maps
that Go may encode as ``null`` are optional here and are read through the properties and functions below. There may be
very many pods: what is read of only a few of them is in :mod:`gpuloom.wire.fullpods`.
"""

from collections.abc import Mapping, Sequence

import msgspec

from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import POD_GROUP_LABEL, VGPU_NODE
from gpuloom.wire.words import decode_time

Quantity = str | int | float
"""A quantity as it stands in JSON, read by :mod:`gpuloom.wire.quantity`."""


class KubeStruct(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of all structs here: camelCase names, defaults for everything that may be absent."""


class ObjectMeta(KubeStruct, frozen=True):
    """``metadata`` of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


MIRROR = "kubernetes.io/config.mirror"
"""The annotation of static pods."""
NO_ANNOTATIONS: Mapping[str, str] = {}


_LONGEST_VERSION = 20
"""So many digits have numbers of 64 bits, and Python refuses to read thousands."""


class KubeObject(KubeStruct, frozen=True):
    """An object with metadata."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """``metadata.name``."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """``metadata.namespace``, empty for cluster-wide objects."""
        return self.metadata.namespace

    @property
    def version(self) -> int:
        """``metadata.resourceVersion`` as a number, 0 without one.

        Versions are numbers of one sequence for all objects; Kubernetes 1.35 and later declare them comparable.
        """
        text = self.metadata.resource_version
        return int(text) if len(text) <= _LONGEST_VERSION and text.isdecimal() else 0

    @property
    def annotations(self) -> Mapping[str, str]:
        """``metadata.annotations``, never null."""
        return self.metadata.annotations or NO_ANNOTATIONS

    @property
    def labels(self) -> Mapping[str, str]:
        """``metadata.labels``, never null."""
        return self.metadata.labels or NO_ANNOTATIONS


class Resources(KubeStruct, frozen=True):
    """``resources`` of a container: resource name to quantity."""

    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None


class SecurityContext(KubeStruct, frozen=True):
    """``securityContext`` of a container."""

    privileged: bool | None = None


class Container(KubeStruct, frozen=True):
    """A container, regular or init."""

    name: str = ""
    resources: Resources | None = None
    security_context: SecurityContext | None = None
    restart_policy: str | None = None

    @property
    def limits(self) -> Mapping[str, Quantity]:
        """``resources.limits``, never null."""
        return (self.resources.limits if self.resources else None) or {}

    @property
    def requests(self) -> Mapping[str, Quantity]:
        """``resources.requests``, never null."""
        return (self.resources.requests if self.resources else None) or {}

    @property
    def privileged(self) -> bool:
        """Whether the security context asks for privileges."""
        return bool(self.security_context and self.security_context.privileged)

    @property
    def variables(self) -> frozenset[str] | None:
        """Names of its environment variables, None where no list of them was read."""
        return None

    @property
    def is_sidecar(self) -> bool:
        """A restartable init container: it keeps running beside the regular ones."""
        return self.restart_policy == "Always"


GATED = "SchedulingGated"
"""Why a pod with a scheduling gate is not tried, in the condition with which the API server creates it."""


class Named(KubeStruct, frozen=True):
    """Anything of a list of which its name is read."""

    name: str = ""


class SchedulingGroup(KubeStruct, frozen=True):
    """The group of pods that start together."""

    pod_group_name: str | None = None


class PodSpec(KubeStruct, frozen=True):
    """``spec`` of a pod."""

    node_name: str = ""
    scheduler_name: str = ""
    runtime_class_name: str | None = None
    containers: Sequence[Container] | None = None
    init_containers: Sequence[Container] | None = None
    scheduling_group: SchedulingGroup | None = None
    scheduling_gates: list[Named] | None = None
    priority: int | None = None
    preemption_policy: str | None = None


class TerminatedState(KubeStruct, frozen=True):
    """How a container ended."""

    exit_code: int = 0


class ContainerState(KubeStruct, frozen=True):
    """``state`` of a container status."""

    terminated: TerminatedState | None = None


class ContainerStatus(KubeStruct, frozen=True):
    """The status of one container."""

    name: str = ""
    ready: bool = False
    state: ContainerState | None = None


class PodStatus(KubeStruct, frozen=True):
    """``status`` of a pod.

    start_time           when its kubelet first reported it, as admitted or refused
    nominated_node_name  where kube-scheduler, or somebody who advises it, expects it to run
    """

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(KubeObject, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def full_name(self) -> str:
        """``namespace/name``, as people write it."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def init_containers(self) -> Sequence[Container]:
        """Init containers in order, never null."""
        return self.spec.init_containers or []

    @property
    def containers(self) -> Sequence[Container]:
        """Regular containers in order, never null."""
        return self.spec.containers or []

    @property
    def all_containers(self) -> Sequence[Container]:
        """Init containers, then regular ones: the order of every device list (wire protocol 3.2)."""
        return [*self.init_containers, *self.containers] if self.spec.init_containers else self.containers

    @property
    def pod_group(self) -> str:
        """Name of the group that the pod starts with, by label or spec; empty for a pod on its own."""
        return self.labels.get(POD_GROUP_LABEL) or self.own_group

    @property
    def own_group(self) -> str:
        """Name of the PodGroup as kube-scheduler itself knows it, other gang schedulers apart; empty without one."""
        return (self.spec.scheduling_group.pod_group_name if self.spec.scheduling_group else None) or ""

    @property
    def priority(self) -> int:
        """``spec.priority``: the higher, the more important; 0 without one."""
        return self.spec.priority or 0

    @property
    def is_static(self) -> bool:
        """Whether its kubelet runs the pod from a file: deleting what the API server shows of it does not end it."""
        return MIRROR in self.annotations

    @property
    def may_preempt(self) -> bool:
        """Whether others may be evicted for the pod."""
        return self.spec.preemption_policy != "Never"

    @property
    def started_at(self) -> int:
        """When its kubelet took the pod in, in whole Unix seconds; before that, when it was created; 0 when unknown."""
        told = self.status.start_time or self.metadata.creation_timestamp
        try:
            return int(decode_time(told).timestamp()) if told else 0
        except WireError:
            return 0

    @property
    def node_of_cards(self) -> str:
        """The node on which the pod's cards count: it is bound there, and who gave them to it named that node.

        Empty for none: what an unbound pod says of itself, or one about another node, is not believed (binding 2.2).
        """
        node = self.spec.node_name
        return node if node and self.annotations.get(VGPU_NODE) == node else ""

    @property
    def is_over(self) -> bool:
        """Whether the pod has ended for good and holds nothing any more."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def is_terminating(self) -> bool:
        """Whether the pod is being deleted; it still holds what it has."""
        return self.metadata.deletion_timestamp is not None


class NodeCondition(KubeStruct, frozen=True):
    """One condition of a node."""

    type: str = ""
    status: str = ""


class Taint(KubeStruct, frozen=True):
    """What keeps pods away from a node that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(KubeStruct, frozen=True):
    """``spec`` of a node."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeStatus(KubeStruct, frozen=True):
    """``status`` of a node."""

    allocatable: dict[str, Quantity] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: list[NodeCondition] | None = None


class Node(KubeObject, frozen=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ResourceQuotaSpec(KubeStruct, frozen=True):
    """``spec`` of a resource quota."""

    hard: dict[str, Quantity] | None = None


class ResourceQuota(KubeObject, frozen=True):
    """A resource quota."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()


class LeaseSpec(KubeStruct, frozen=True):
    """``spec`` of a lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    renew_time: str | None = None


class Lease(KubeObject, frozen=True):
    """A lease."""

    spec: LeaseSpec = LeaseSpec()


class Secret(KubeObject, frozen=True):
    """A secret; values are base64 and left out of its text form."""

    data: dict[str, str] | None = None

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"


class WebhookClient(KubeStruct, frozen=True):
    """``clientConfig`` of a webhook: how the API server verifies who answers. ``caBundle`` is base64."""

    ca_bundle: str = ""


class Webhook(KubeStruct, frozen=True):
    """One webhook of a configuration."""

    name: str = ""
    client_config: WebhookClient = WebhookClient()


class WebhookConfiguration(KubeObject, frozen=True):
    """Webhooks that the API server asks."""

    webhooks: list[Webhook] | None = None


class ObjectReference(KubeStruct, frozen=True):
    """What an event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Event(KubeObject, frozen=True):
    """An event, as people read it."""

    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    involved_object: ObjectReference = ObjectReference()
