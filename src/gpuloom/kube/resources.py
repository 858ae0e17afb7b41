"""Which kinds of objects there are and where an API server keeps them.

A :class:`Resource` is a plain value that ties a path to the struct its objects are decoded into. It makes no calls.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

from gpuloom.wire.budgets import DisruptionBudget
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.monitors import MonitorPod
from gpuloom.wire.objects import (
    Event,
    KubeObject,
    Lease,
    Node,
    Pod,
    ResourceQuota,
    Secret,
    WebhookConfiguration,
)

T = TypeVar("T", bound=KubeObject)


def keep_all(found: T) -> T:
    """Keep an object as it was read."""
    return found


def is_path_segment(name: str) -> bool:
    """Tell whether the API server takes a text for one part of a path, as each object's name is.

    With any other, whoever stands between leads to another path.
    """
    return bool(name) and name.isprintable() and name not in {".", ".."} and not {"/", "%"} & set(name)


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """One kind of object: ``plural`` stands in paths, ``kind`` in messages, ``type`` is what its JSON becomes.

    ``group`` is empty for the core group. ``keep`` returns what stays in memory of an object that was read; lists are
    read object by object then. ``page_size`` objects of a list are asked for at a time.
    """

    group: str
    version: str
    plural: str
    kind: str
    type: type[T]
    namespaced: bool
    keep: Callable[[T], T] = keep_all
    page_size: int = 500

    @property
    def api_version(self) -> str:
        """``apiVersion`` of its objects, such as ``v1`` or ``coordination.k8s.io/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """URL path, escaped, such as ``/api/v1/namespaces/ns/pods/p/status``; without a name that of the collection.

        A namespaced kind without ``namespace`` gives the collection of all namespaces. Raises :class:`ValueError` where
        no such path exists: an object of a namespaced kind without its namespace, a subresource without a name.
        """
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self.kind} {name}: a namespace is needed to name one {self.kind}")
        if subresource and not name:
            raise ValueError(f"{self.kind}: the subresource {subresource!r} needs the name of an object")
        root = f"apis/{self.group}" if self.group else "api"
        place = ("namespaces", namespace) if self.namespaced and namespace else ()
        parts = (*place, self.plural, name, subresource)
        return f"/{root}/{self.version}/" + "/".join(quote(part, safe="") for part in parts if part)

    def describe(self, *, namespace: str = "", name: str = "") -> str:
        """Return its name in messages: ``Pod ns/p``, ``Node n``, ``Pod in namespace ns``, or ``Pod`` for all pods."""
        if name:
            return f"{self.kind} {namespace}/{name}" if self.namespaced else f"{self.kind} {name}"
        return f"{self.kind} in namespace {namespace}" if self.namespaced and namespace else self.kind


PODS = Resource("", "v1", "pods", "Pod", Pod, namespaced=True)
FULL_PODS = Resource("", "v1", "pods", "Pod", FullPod, namespaced=True)
HOST_PODS = Resource("", "v1", "pods", "Pod", HostPod, namespaced=True)
MONITOR_PODS = Resource("", "v1", "pods", "Pod", MonitorPod, namespaced=True)
NODES = Resource("", "v1", "nodes", "Node", Node, namespaced=False)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", ResourceQuota, namespaced=True)
DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", DisruptionBudget, namespaced=True
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", Lease, namespaced=True)
EVENTS = Resource("", "v1", "events", "Event", Event, namespaced=True)
SERVICES = Resource("", "v1", "services", "Service", KubeObject, namespaced=True)
SECRETS = Resource("", "v1", "secrets", "Secret", Secret, namespaced=True)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    WebhookConfiguration,
    namespaced=False,
)
