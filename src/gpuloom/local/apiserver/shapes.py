"""The types that a body must have, so that nothing stored can trip whoever reads it later.

Wider than :mod:`gpuloom.wire.objects` by what this server itself looks at; fields named nowhere may hold anything.
"""

from typing import Any, Literal

from gpuloom.wire.budgets import BudgetSpec, BudgetStatus, DisruptionBudget
from gpuloom.wire.fullpods import FullContainer, FullMeta, FullPod, FullSpec, FullStatus
from gpuloom.wire.objects import (
    ContainerStatus,
    Event,
    KubeObject,
    KubeStruct,
    Lease,
    Node,
    NodeSpec,
    NodeStatus,
    ResourceQuota,
)

Entries = list[dict[str, Any]] | None
Texts = dict[str, str] | None


class MetaShape(FullMeta, frozen=True):
    """``metadata`` as clients may send it."""

    generate_name: str | None = None
    finalizers: list[str] | None = None


class ObjectShape(KubeObject, frozen=True):
    """An object of a kind that has nothing else to check."""

    metadata: MetaShape | None = None  # type: ignore[assignment]  # wider: clients send null
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    secrets: Entries = None


class ContainerShape(FullContainer, frozen=True):
    """A container of a pod."""

    image: str | None = None
    ports: Entries = None


class PodSpecShape(FullSpec, frozen=True):
    """``spec`` of a pod."""

    containers: list[ContainerShape] | None = None  # type: ignore[assignment]  # wider: clients send null
    init_containers: list[ContainerShape] | None = None  # type: ignore[assignment]  # wider: clients send null
    tolerations: Entries = None
    termination_grace_period_seconds: int | None = None


class ContainerStatusShape(ContainerStatus, frozen=True):
    """Status of one container."""

    restart_count: int | None = None


class PodStatusShape(FullStatus, frozen=True):
    """``status`` of a pod."""

    conditions: Entries = None
    container_statuses: list[ContainerStatusShape] | None = None  # type: ignore[assignment]  # wider: clients send null
    init_container_statuses: list[ContainerStatusShape] | None = None  # type: ignore[assignment]  # wider: clients send null


class PodShape(FullPod, frozen=True):
    """A pod."""

    metadata: MetaShape | None = None  # type: ignore[assignment]  # wider: clients send null
    spec: PodSpecShape | None = None  # type: ignore[assignment]  # wider: clients send null
    status: PodStatusShape | None = None  # type: ignore[assignment]  # wider: clients send null


class NodeStatusShape(NodeStatus, frozen=True):
    """``status`` of a node."""

    addresses: Entries = None
    node_info: dict[str, Any] | None = None


class NodeShape(Node, frozen=True):
    """A node."""

    metadata: MetaShape | None = None  # type: ignore[assignment]  # wider: clients send null
    spec: NodeSpec | None = None  # type: ignore[assignment]  # wider: clients send null
    status: NodeStatusShape | None = None  # type: ignore[assignment]  # wider: clients send null


class EventShape(Event, frozen=True):
    """An event."""

    metadata: MetaShape | None = None  # type: ignore[assignment]  # wider: clients send null
    source: Texts = None
    series: dict[str, Any] | None = None


class LeaseShape(Lease, frozen=True):
    """A lease."""

    metadata: MetaShape | None = None  # type: ignore[assignment]  # wider: clients send null


class QuotaShape(ResourceQuota, frozen=True):
    """A resource quota."""

    metadata: MetaShape | None = None  # type: ignore[assignment]  # wider: clients send null
    status: dict[str, dict[str, str]] | None = None


class BudgetShape(DisruptionBudget, frozen=True):
    """A budget of disruptions."""

    metadata: MetaShape | None = None  # type: ignore[assignment]  # wider: clients send null
    spec: BudgetSpec | None = None  # type: ignore[assignment]  # wider: clients send null
    status: BudgetStatus | None = None  # type: ignore[assignment]  # wider: clients send null


class ServiceSpecShape(KubeStruct, frozen=True):
    """``spec`` of a service."""

    ports: Entries = None
    selector: Texts = None


class ServiceShape(KubeObject, frozen=True):
    """A service."""

    metadata: MetaShape | None = None  # type: ignore[assignment]  # wider: clients send null
    spec: ServiceSpecShape | None = None


class ExpressionShape(KubeStruct, frozen=True):
    """One expression of a label selector."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] | None = None


class SelectorShape(KubeStruct, frozen=True):
    """A label selector."""

    match_labels: Texts = None
    match_expressions: list[ExpressionShape] | None = None


class ClientShape(KubeStruct, frozen=True):
    """Where a webhook is."""

    url: str | None = None
    ca_bundle: str | None = None
    service: dict[str, Any] | None = None


class RuleShape(KubeStruct, frozen=True):
    """What a webhook wants to see."""

    operations: list[str] | None = None
    api_groups: list[str] | None = None
    api_versions: list[str] | None = None
    resources: list[str] | None = None
    scope: str | None = None


class WebhookShape(KubeStruct, frozen=True):
    """One webhook."""

    name: str
    client_config: ClientShape | None = None
    rules: list[RuleShape] | None = None
    namespace_selector: SelectorShape | None = None
    object_selector: SelectorShape | None = None
    timeout_seconds: int | None = None
    admission_review_versions: list[str] | None = None


class WebhooksShape(KubeObject, frozen=True):
    """A configuration of mutating webhooks."""

    metadata: MetaShape | None = None  # type: ignore[assignment]  # wider: clients send null
    webhooks: list[WebhookShape] | None = None
