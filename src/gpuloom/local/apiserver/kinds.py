"""The kinds that the server knows, as data: everything else here is written once for all of them."""

from dataclasses import dataclass
from types import MappingProxyType

from gpuloom.local.apiserver.shapes import (
    BudgetShape,
    EventShape,
    LeaseShape,
    NodeShape,
    ObjectShape,
    PodShape,
    QuotaShape,
    ServiceShape,
    WebhooksShape,
)
from gpuloom.wire.objects import KubeObject

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Subresource:
    """Something below an object's path, as discovery lists it."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: where it is served, and how it differs from the others.

    ``shape`` is the struct whose types a body must fit. ``fields`` are the paths that a field selector may name besides
    the object's name and namespace. ``returns_deleted`` says that a delete answers with the object, not with a Status.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    shape: type[KubeObject] = ObjectShape
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[str, ...] = VERBS
    returns_deleted: bool = False
    needs_version_to_update: bool = False

    @property
    def api_version(self) -> str:
        """``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Plural name with its group, as error messages write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        """Name of one object in lower case."""
        return self.kind.lower()

    @property
    def has_status(self) -> bool:
        """Whether ``status`` is written through a path of its own."""
        return any(subresource.name == "status" for subresource in self.subresources)

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource of that name, or None."""
        return next((one for one in self.subresources if one.name == name), None)


def _status(kind: str) -> Subresource:
    return Subresource("status", kind, ("get", "patch", "update"))


PODS = Kind(
    "",
    "v1",
    "pods",
    "Pod",
    namespaced=True,
    shape=PodShape,
    short_names=("po",),
    categories=("all",),
    fields=(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    subresources=(
        Subresource("attach", "PodAttachOptions", ("create", "get")),
        Subresource("binding", "Binding", ("create",)),
        Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
        Subresource("exec", "PodExecOptions", ("create", "get")),
        Subresource("log", "Pod", ("get",)),
        Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
        _status("Pod"),
    ),
    returns_deleted=True,
)
NODES = Kind(
    "",
    "v1",
    "nodes",
    "Node",
    namespaced=False,
    shape=NodeShape,
    short_names=("no",),
    fields=("spec.unschedulable",),
    subresources=(_status("Node"),),
)
NAMESPACES = Kind(
    "",
    "v1",
    "namespaces",
    "Namespace",
    namespaced=False,
    short_names=("ns",),
    fields=("status.phase",),
    subresources=(_status("Namespace"),),
    verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
    returns_deleted=True,
)
EVENTS = Kind(
    "",
    "v1",
    "events",
    "Event",
    namespaced=True,
    shape=EventShape,
    short_names=("ev",),
    fields=(
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "type",
    ),
)
RESOURCE_QUOTAS = Kind(
    "",
    "v1",
    "resourcequotas",
    "ResourceQuota",
    namespaced=True,
    shape=QuotaShape,
    short_names=("quota",),
    subresources=(_status("ResourceQuota"),),
    returns_deleted=True,
)
DISRUPTION_BUDGETS = Kind(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    namespaced=True,
    shape=BudgetShape,
    short_names=("pdb",),
    subresources=(_status("PodDisruptionBudget"),),
)
SERVICES = Kind(
    "",
    "v1",
    "services",
    "Service",
    namespaced=True,
    shape=ServiceShape,
    short_names=("svc",),
    categories=("all",),
    fields=("spec.clusterIP", "spec.type"),
    subresources=(_status("Service"),),
    returns_deleted=True,
)
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", namespaced=True, short_names=("cm",))
SECRETS = Kind("", "v1", "secrets", "Secret", namespaced=True, fields=("type",))
SERVICE_ACCOUNTS = Kind(
    "", "v1", "serviceaccounts", "ServiceAccount", namespaced=True, short_names=("sa",), returns_deleted=True
)
LEASES = Kind(
    "coordination.k8s.io", "v1", "leases", "Lease", namespaced=True, shape=LeaseShape, needs_version_to_update=True
)
MUTATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
    shape=WebhooksShape,
    categories=("api-extensions",),
    needs_version_to_update=True,
)

KINDS = (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    LEASES,
    MUTATING_WEBHOOKS,
    DISRUPTION_BUDGETS,
)
"""Every kind, in the order of discovery."""

KIND_AT = MappingProxyType({(kind.group, kind.version, kind.plural): kind for kind in KINDS})
"""Group, version and plural to kind."""

FIELD_DEFAULTS = MappingProxyType({"spec.unschedulable": "false"})
"""What a field selector sees where the object says nothing; the empty string for every other path."""
