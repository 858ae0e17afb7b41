"""Made-up facts of a cluster in which nothing is wrong, and the objects that tests make others of."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from gpuloom.doctor.cluster.facts import ClusterFacts, FoundWebhook, Meeting, Probe, RightAnswer, Trust
from gpuloom.doctor.cluster.installation import ExtenderFlags, KubeScheduler
from gpuloom.doctor.cluster.objects import (
    DaemonSet,
    ExtenderConfig,
    InstalledPod,
    InstalledWebhook,
    LeaderElection,
    ManagedResource,
    SchedulerConfiguration,
    SchedulerProfile,
)
from gpuloom.doctor.cluster.rights import SCHEDULER_RIGHTS
from gpuloom.kube.authority import CertificateAuthority
from gpuloom.model.card import Card
from gpuloom.vendors.catalog import load_default_profiles, make_catalog
from gpuloom.wire.objects import Node, Pod
from gpuloom.wire.register import encode_register

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CATALOG = make_catalog(load_default_profiles())
RESOURCES = tuple(dict.fromkeys(name for profile in CATALOG for name in profile.resources.all))
REGISTER = "hami.io/node-nvidia-register"
HANDSHAKE = "hami.io/node-handshake"
LOCK = "hami.io/mutex.lock"
CARD = Card(id="GPU-1", index=0, count=10, memory_mib=1000, cores=100, model="NVIDIA L4", mode="hami-core")


def installed_pod(
    name: str = "s-0", *, ready: bool = True, spec: Any = None, status: Any = None, deleted: str | None = None
) -> InstalledPod:
    statuses = [{"name": "c", "ready": ready, "restartCount": 0 if ready else 7}]
    body = {
        "metadata": {"name": name, "namespace": "gpu", "deletionTimestamp": deleted},
        "spec": {"serviceAccountName": "gpuloom", **(spec or {})},
        "status": {"phase": "Running", "containerStatuses": statuses, **(status or {})},
    }
    return msgspec.convert(body, InstalledPod)


def daemon_set(
    name: str,
    *,
    ours: bool = True,
    nodes: int = 1,
    current: int | None = None,
    image: str = "gpuloom/node:1",
    folder: str = "/var/lib/kubelet/device-plugins",
    spec: Any = None,
) -> DaemonSet:
    """A DaemonSet with a pod on each of its nodes, unless it is said otherwise; ``folder`` of the node is mounted."""
    labels = {"app.kubernetes.io/component": "hami-device-plugin"} if ours else {}
    volumes = [{"name": "v", "hostPath": {"path": folder}}]
    template = {"containers": [{"name": "c", "image": image}], "volumes": volumes, **(spec or {})}
    body = {
        "metadata": {"name": name, "namespace": "gpu", "labels": labels},
        "spec": {"template": {"spec": template}},
        "status": {
            "desiredNumberScheduled": nodes,
            "currentNumberScheduled": nodes if current is None else current,
        },
    }
    return msgspec.convert(body, DaemonSet)


def node(
    *cards: Card,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    offered: int | None = None,
    allocatable: int | None = None,
) -> Node:
    """A node whose kubelet offers what is registered, unless it is said otherwise."""
    registered = {REGISTER: encode_register(cards)} if cards else {}
    count = sum(card.count for card in cards) if offered is None else offered
    body = {
        "metadata": {"name": "n1", "labels": labels or {}, "annotations": {**registered, **(annotations or {})}},
        "status": {
            "capacity": {"nvidia.com/gpu": str(count)},
            "allocatable": {"nvidia.com/gpu": str(count if allocatable is None else allocatable)},
        },
    }
    return msgspec.convert(body, Node)


def pod(
    name: str = "p",
    *,
    scheduler: str = "hami-scheduler",
    limits: dict[str, str] | None = None,
    privileged: bool = False,
    phase: str = "Pending",
    node_name: str = "",
    started: str | None = None,
) -> Pod:
    container = {
        "name": "c",
        "resources": {"limits": {"nvidia.com/gpu": "1"} if limits is None else limits},
        "securityContext": {"privileged": privileged},
    }
    body = {
        "metadata": {"name": name, "namespace": "team", "creationTimestamp": "2026-11-21T11:00:00Z"},
        "spec": {"schedulerName": scheduler, "nodeName": node_name, "containers": [container]},
        "status": {"phase": phase, "startTime": started},
    }
    return msgspec.convert(body, Pod)


def bundle(start: datetime = NOW, lifetime: timedelta = timedelta(days=365)) -> str:
    return base64.b64encode(CertificateAuthority.create(now=start, lifetime=lifetime).pem).decode()


BUNDLE = bundle()


def webhook(
    name: str = "gpuloom-webhook",
    *,
    ca_bundle: str = BUNDLE,
    meeting: Meeting = Meeting(Trust.TRUSTED),  # noqa: B008 - frozen
    **changes: Any,
) -> FoundWebhook:
    body = {
        "name": "vgpu.hami.io",
        "clientConfig": {"caBundle": ca_bundle, "service": {"name": "s", "namespace": "gpu", "path": "/webhook"}},
        "failurePolicy": "Ignore",
        "rules": [{"operations": ["CREATE"], "resources": ["pods"]}],
    }
    return FoundWebhook(name, msgspec.convert({**body, **changes}, InstalledWebhook), meeting)


FLAGS = ExtenderFlags(
    scheduler_name="hami-scheduler",
    address="127.0.0.1:9398",
    leader_elect=True,
    lease_name="hami-scheduler",
    lease_namespace="gpu",
)
EXTENDER = ExtenderConfig(
    url_prefix="http://127.0.0.1:9398",
    filter_verb="filter",
    bind_verb="bind",
    preempt_verb="preempt",
    node_cache_capable=True,
    http_timeout="30s",
    managed_resources=tuple(ManagedResource(name, ignored_by_scheduler=True) for name in RESOURCES),
)
CONFIGURATION = SchedulerConfiguration(
    api_version="kubescheduler.config.k8s.io/v1",
    kind="KubeSchedulerConfiguration",
    profiles=(SchedulerProfile("hami-scheduler"),),
    extenders=(EXTENDER,),
    leader_election=LeaderElection(resource_name="hami-scheduler", resource_namespace="gpu"),
)
KUBE_SCHEDULER = KubeScheduler(34, "ConfigMap gpu/s, config.yaml", CONFIGURATION)
ACCOUNT = "system:serviceaccount:gpu:gpuloom"
HEALTHY = ClusterFacts(
    now=NOW,
    catalog=CATALOG,
    flags=FLAGS,
    kube_scheduler=KUBE_SCHEDULER,
    scheduler_pods=(installed_pod(),),
    plugin_pods=(installed_pod("d-0"),),
    daemon_sets=(daemon_set("d"),),
    webhooks=(webhook(),),
    probe=Probe("hami-scheduler"),
    rights=tuple(RightAnswer(ACCOUNT, right, is_allowed=True) for right in SCHEDULER_RIGHTS),
    nodes=(node(CARD),),
    pods=(pod(),),
)
