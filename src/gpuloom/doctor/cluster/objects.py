"""What the doctor reads of an installation's objects, beyond what the scheduler needs of them."""

from collections.abc import Mapping, Sequence

import msgspec

from gpuloom.kube import Resource
from gpuloom.kube.resources import MUTATING_WEBHOOKS
from gpuloom.serving.reviews import SubjectAccessReview, UserInfo
from gpuloom.wire.hostpods import PodCondition
from gpuloom.wire.objects import KubeObject, KubeStruct


class InstalledContainer(KubeStruct, frozen=True):
    """What a container of an installation runs."""

    name: str = ""
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None

    @property
    def words(self) -> Sequence[str]:
        """Its command line, as far as the object says it."""
        return [*(self.command or []), *(self.args or [])]


class ConfigMapSource(KubeStruct, frozen=True):
    """The ConfigMap behind a volume."""

    name: str = ""


class HostPathSource(KubeStruct, frozen=True):
    """The file or folder of the node behind a volume."""

    path: str = ""


class Volume(KubeStruct, frozen=True):
    """A volume; only those of ConfigMaps and of the node are of interest."""

    name: str = ""
    config_map: ConfigMapSource | None = None
    host_path: HostPathSource | None = None


class InstalledSpec(KubeStruct, frozen=True):
    """``spec`` of a pod of an installation."""

    node_name: str = ""
    service_account_name: str = "default"
    runtime_class_name: str | None = None
    node_selector: dict[str, str] | None = None
    containers: list[InstalledContainer] | None = None
    volumes: list[Volume] | None = None


class WaitingState(KubeStruct, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class InstalledState(KubeStruct, frozen=True):
    """``state`` of a container."""

    waiting: WaitingState | None = None


class InstalledContainerStatus(KubeStruct, frozen=True):
    """Status of a container."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: InstalledState = InstalledState()


class InstalledStatus(KubeStruct, frozen=True):
    """``status`` of a pod of an installation."""

    phase: str = ""
    message: str = ""
    conditions: list[PodCondition] | None = None
    container_statuses: list[InstalledContainerStatus] | None = None
    init_container_statuses: list[InstalledContainerStatus] | None = None


class InstalledPod(KubeObject, frozen=True):
    """A pod of an installation."""

    spec: InstalledSpec = InstalledSpec()
    status: InstalledStatus = InstalledStatus()

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def account(self) -> str:
        """Name by which the API server knows the pod's service account."""
        return f"system:serviceaccount:{self.namespace}:{self.spec.service_account_name}"

    @property
    def goes(self) -> bool:
        """Whether it has ended, or is being deleted, as old pods of a rollout are."""
        return self.status.phase == "Succeeded" or self.metadata.deletion_timestamp is not None

    @property
    def is_ready(self) -> bool:
        """Whether all its containers are, and its condition does not deny it: on a lost node containers stay ready."""
        statuses = self.status.container_statuses or []
        said = next((one.status for one in self.status.conditions or () if one.type == "Ready"), "True")
        return bool(statuses) and all(one.ready for one in statuses) and said == "True"


class ConfigMap(KubeObject, frozen=True):
    """A ConfigMap."""

    data: dict[str, str] | None = None

    @property
    def texts(self) -> Mapping[str, str]:
        """Its values, never null."""
        return self.data or {}


class ServiceReference(KubeStruct, frozen=True):
    """The Service behind which a webhook is."""

    name: str = ""
    namespace: str = ""
    path: str = ""
    port: int = 443


class InstalledClient(KubeStruct, frozen=True):
    """``clientConfig`` of a webhook; ``caBundle`` is base64."""

    ca_bundle: str = ""
    url: str | None = None
    service: ServiceReference | None = None


class WebhookRule(KubeStruct, frozen=True):
    """What a webhook is asked about."""

    operations: list[str] | None = None
    resources: list[str] | None = None


class InstalledWebhook(KubeStruct, frozen=True):
    """One webhook of a configuration."""

    name: str = ""
    client_config: InstalledClient = InstalledClient()
    failure_policy: str = ""
    rules: list[WebhookRule] | None = None


class InstalledWebhooks(KubeObject, frozen=True):
    """A configuration of webhooks."""

    webhooks: list[InstalledWebhook] | None = None


class DaemonSetTemplate(KubeStruct, frozen=True):
    """``spec.template`` of a DaemonSet."""

    spec: InstalledSpec = InstalledSpec()


class DaemonSetSpec(KubeStruct, frozen=True):
    """``spec`` of a DaemonSet."""

    template: DaemonSetTemplate = DaemonSetTemplate()


class DaemonSetStatus(KubeStruct, frozen=True):
    """On how many nodes it shall run, and on how many of these it has a pod."""

    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0


class DaemonSet(KubeObject, frozen=True):
    """A DaemonSet."""

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def template(self) -> InstalledSpec:
        """``spec`` of its pods."""
        return self.spec.template.spec

    @property
    def node_selector(self) -> Mapping[str, str]:
        """The labels of the nodes that it is for, never null."""
        return self.template.node_selector or {}


class SelfReviewStatus(KubeStruct, frozen=True):
    """Who asks."""

    user_info: UserInfo = UserInfo()


class SelfSubjectReview(KubeObject, frozen=True):
    """The question who we are, answered."""

    status: SelfReviewStatus = SelfReviewStatus()


INSTALLED_PODS = Resource("", "v1", "pods", "Pod", InstalledPod, namespaced=True)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", ConfigMap, namespaced=True)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", DaemonSet, namespaced=True)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", KubeObject, namespaced=False)
WEBHOOKS = Resource(
    MUTATING_WEBHOOKS.group,
    MUTATING_WEBHOOKS.version,
    MUTATING_WEBHOOKS.plural,
    MUTATING_WEBHOOKS.kind,
    InstalledWebhooks,
    namespaced=False,
)
SELF_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", SelfSubjectReview, namespaced=False
)
SELF_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    SubjectAccessReview,
    namespaced=False,
)


class ManagedResource(msgspec.Struct, frozen=True, rename="camel"):
    """A resource for which kube-scheduler asks an extender."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTls(msgspec.Struct, frozen=True, rename="camel"):
    """How kube-scheduler recognizes an extender."""

    insecure: bool = False
    ca_file: str = ""
    ca_data: str = ""


class ExtenderConfig(msgspec.Struct, frozen=True, rename="camel"):
    """One extender of a KubeSchedulerConfiguration."""

    url_prefix: str = ""
    filter_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    preempt_verb: str = ""
    node_cache_capable: bool = False
    http_timeout: str = msgspec.field(default="", name="httpTimeout")
    tls_config: ExtenderTls = msgspec.field(default=ExtenderTls(), name="tlsConfig")
    managed_resources: tuple[ManagedResource, ...] = ()


class SchedulerProfile(msgspec.Struct, frozen=True, rename="camel"):
    """A name under which kube-scheduler serves pods."""

    scheduler_name: str = "default-scheduler"


class LeaderElection(msgspec.Struct, frozen=True, rename="camel"):
    """Which lease says who of several schedulers decides; kube-scheduler's own values."""

    leader_elect: bool = True
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class SchedulerConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """A KubeSchedulerConfiguration, as far as gpuloom's part goes."""

    api_version: str = ""
    kind: str = ""
    profiles: tuple[SchedulerProfile, ...] = (SchedulerProfile(),)
    extenders: tuple[ExtenderConfig, ...] = ()
    leader_election: LeaderElection = LeaderElection()
