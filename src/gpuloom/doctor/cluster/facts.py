"""What is known of a cluster, as values. Who collects them does not judge, who judges does not look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import TypeVar

from gpuloom.doctor.checks import Unseen
from gpuloom.doctor.cluster.installation import ExtenderFlags, KubeScheduler
from gpuloom.doctor.cluster.objects import DaemonSet, InstalledPod, InstalledWebhook
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.vendors.profile import Profile
from gpuloom.wire.objects import KubeObject, Node, Pod
from gpuloom.wire.quantity import decode_strict_integer

_NVIDIA = "NVIDIA"
_Object = TypeVar("_Object", bound=KubeObject)


class Trust(Enum):
    """What came of presenting the webhook's own certificate to somebody who trusts its CA bundle alone."""

    TRUSTED = "trusted"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Meeting:
    """One attempt to talk to a webhook from here."""

    trust: Trust
    text: str = ""


@dataclass(frozen=True, slots=True)
class FoundWebhook:
    """A webhook that gpuloom or HAMi installed, and its configuration's name."""

    configuration: str
    webhook: InstalledWebhook
    meeting: Meeting = Meeting(Trust.UNREACHABLE)


def find_namespaces(webhooks: Sequence[FoundWebhook] | Unseen) -> frozenset[str]:
    """Return where the Services of these webhooks are; nothing where none has one, or they could not be read."""
    found = () if isinstance(webhooks, Unseen) else webhooks
    services = (one.webhook.client_config.service for one in found)
    return frozenset(service.namespace for service in services if service and service.namespace)


def believe(labelled: Sequence[_Object], webhooks: Sequence[FoundWebhook] | Unseen) -> list[_Object]:
    """Leave out what is not where the webhook is: everybody may write a label, but no tenant a webhook."""
    namespaces = find_namespaces(webhooks)
    return [one for one in labelled if not namespaces or one.namespace in namespaces]


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of creating a pod with a card in a dry run: its scheduler, or what the API server said instead."""

    scheduler_name: str = ""
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Right:
    """Something that an account must be allowed; ``resource`` may be ``pods/binding``.

    Without ``namespace`` in all of them, without ``name`` with all objects.
    """

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}" + (f" in namespace {self.namespace}" if self.namespace else "")


@dataclass(frozen=True, slots=True)
class RightAnswer:
    """Whether an account may do something that it must."""

    account: str
    right: Right
    is_allowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Everything about one cluster.

    catalog         the vendors that are served
    catalog_error   why the installation's device configuration cannot be read, empty when it can
    flags           of the extender, None where no pod of it tells
    owners          pods that node locks name, by namespace and name; a pod that is not there is missing here
    """

    now: datetime
    catalog: Catalog
    catalog_error: str = ""
    scheduler_name: str = "hami-scheduler"
    flags: ExtenderFlags | None = None
    kube_scheduler: KubeScheduler | None = None
    scheduler_pods: Sequence[InstalledPod] | Unseen = ()
    plugin_pods: Sequence[InstalledPod] | Unseen = ()
    daemon_sets: Sequence[DaemonSet] | Unseen = ()
    webhooks: Sequence[FoundWebhook] | Unseen = ()
    probe: Probe | Unseen = Probe()
    rights: Sequence[RightAnswer] | Unseen = ()
    runtime_classes: frozenset[str] | Unseen = frozenset()
    nodes: Sequence[Node] | Unseen = ()
    pods: Sequence[Pod] | Unseen = ()
    owners: Mapping[tuple[str, str], Pod] | Unseen = field(default_factory=dict)

    @property
    def nvidia(self) -> Profile:
        """What is known of NVIDIA's cards, as configured, or as shipped where they are not."""
        return self.catalog.find(_NVIDIA) or next(one for one in load_default_profiles() if one.word == _NVIDIA)

    def count_offered(self, node: Node) -> int:
        """Return how many of NVIDIA's resource the kubelet of a node offers, whoever gives them."""
        return decode_strict_integer((node.status.capacity or {}).get(self.nvidia.resources.count, 0)) or 0
