"""Collects the facts of a cluster from its API server; what may not be read is noted with the reason.

Nothing is changed: the one pod that is created is a dry run.
"""

import asyncio
import re
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from gpuloom.doctor.checks import Unseen
from gpuloom.doctor.cluster.facts import ClusterFacts, FoundWebhook, Probe, believe
from gpuloom.doctor.cluster.installation import (
    ExtenderFlags,
    KubeScheduler,
    find_gpuloom,
    read_catalog,
    read_flags,
    read_kube_scheduler,
)
from gpuloom.doctor.cluster.meeting import meet
from gpuloom.doctor.cluster.objects import (
    CONFIG_MAPS,
    DAEMON_SETS,
    INSTALLED_PODS,
    RUNTIME_CLASSES,
    WEBHOOKS,
    ConfigMap,
    InstalledPod,
)
from gpuloom.doctor.cluster.pods import COMPONENT, OUR_PLUGIN, OUR_SCHEDULER
from gpuloom.doctor.cluster.reviews import ask_rights
from gpuloom.kube import (
    NODES,
    PODS,
    ApiError,
    ForbiddenError,
    KubeClient,
    Resource,
    UnauthorizedError,
    UnreachableError,
)
from gpuloom.vendors.catalog import Catalog
from gpuloom.vendors.profile import ProfileError
from gpuloom.wire.objects import KubeObject, Pod

_T = TypeVar("_T")
_Object = TypeVar("_Object", bound=KubeObject)
WEBHOOK_NAME = "vgpu.hami.io"
DEFAULT_SCHEDULER = "hami-scheduler"
_OTHER_SCHEDULER = re.compile(r"ValidatingAdmissionPolicy .+ denied request: .*spec\.schedulerName is ([^: ]+)")
"""What the policy of the chart for pods that ask for cards says of one that the webhook has not completed."""


@dataclass(frozen=True, slots=True)
class InstallationFacts:
    """What the scheduler's pods say of the installation."""

    catalog: Catalog
    catalog_error: str = ""
    flags: ExtenderFlags | None = None
    kube_scheduler: KubeScheduler | None = None

    @property
    def scheduler_name(self) -> str:
        """The name under which pods come to gpuloom."""
        return (self.flags.scheduler_name if self.flags else "") or DEFAULT_SCHEDULER


async def collect_cluster(client: KubeClient, namespace: str) -> ClusterFacts:
    """Look at a cluster; the dry run is in ``namespace``.

    Raises ApiError when the API server cannot be reached or believes nobody.
    """
    schedulers, plugins, sets, classes, webhooks = await asyncio.gather(
        _list(client, INSTALLED_PODS, f"{COMPONENT}={OUR_SCHEDULER}"),
        _list(client, INSTALLED_PODS, f"{COMPONENT}={OUR_PLUGIN}"),
        _list(client, DAEMON_SETS),
        _list(client, RUNTIME_CLASSES),
        _find_webhooks(client),
    )
    if not isinstance(schedulers, Unseen):
        schedulers = believe(schedulers, webhooks)
    if not isinstance(plugins, Unseen):
        plugins = believe(plugins, webhooks)
    nodes, pods = await asyncio.gather(_list(client, NODES), _list(client, PODS))
    installation = await _read_installation(client, schedulers)
    probe, rights = await asyncio.gather(
        _probe(client, installation, namespace), _see(ask_rights(client, schedulers, plugins, installation.flags))
    )
    return ClusterFacts(
        now=datetime.now(UTC),
        catalog=installation.catalog,
        catalog_error=installation.catalog_error,
        scheduler_name=installation.scheduler_name,
        flags=installation.flags,
        kube_scheduler=installation.kube_scheduler,
        scheduler_pods=schedulers,
        plugin_pods=plugins,
        daemon_sets=sets,
        webhooks=webhooks,
        probe=probe,
        rights=rights,
        runtime_classes=classes if isinstance(classes, Unseen) else frozenset(each.name for each in classes),
        nodes=nodes,
        pods=pods,
        owners=pods if isinstance(pods, Unseen) else {(pod.namespace, pod.name): pod for pod in pods},
    )


async def _list(client: KubeClient, resource: Resource[_Object], labels: str = "") -> Sequence[_Object] | Unseen:
    async def read() -> Sequence[_Object]:
        found, _ = await client.list_all(resource, label_selector=labels)
        return found

    return await _see(read())


async def _see(reading: Coroutine[Any, Any, _T]) -> _T | Unseen:
    """Turn a refusal into a fact that could not be collected; no answer at all is raised."""
    try:
        return await reading
    except (UnreachableError, UnauthorizedError):
        raise
    except ForbiddenError as error:
        return Unseen(f"{error}: ask with an account that may")
    except ApiError as error:
        return Unseen(str(error))


async def _find_webhooks(client: KubeClient) -> Sequence[FoundWebhook] | Unseen:
    listed = await _list(client, WEBHOOKS)
    if isinstance(listed, Unseen):
        return listed
    found = [(each.name, one) for each in listed for one in each.webhooks or () if one.name == WEBHOOK_NAME]
    meetings = await asyncio.gather(*(meet(one.client_config) for _, one in found))
    return [FoundWebhook(name, one, met) for (name, one), met in zip(found, meetings, strict=True)]


async def _read_installation(client: KubeClient, schedulers: Sequence[InstalledPod] | Unseen) -> InstallationFacts:
    pods = [] if isinstance(schedulers, Unseen) else sorted(schedulers, key=lambda one: (not one.is_ready, one.name))
    for pod in pods:
        container = find_gpuloom(pod)
        if container is None:
            continue
        config_maps, flags = await _read_config_maps(client, pod), read_flags(container)
        catalog, error = _make_catalog(config_maps, flags)
        return InstallationFacts(catalog, error, flags, read_kube_scheduler(pod, config_maps))
    return InstallationFacts(read_catalog({}, ()))


def _make_catalog(config_maps: Mapping[str, ConfigMap], flags: ExtenderFlags) -> tuple[Catalog, str]:
    """Return the vendors, and why the device configuration cannot be used if that is so."""
    try:
        return read_catalog(config_maps, flags.switches), ""
    except ProfileError as error:
        return read_catalog({}, flags.switches), str(error)


async def _read_config_maps(client: KubeClient, pod: InstalledPod) -> Mapping[str, ConfigMap]:
    names = [volume.config_map.name for volume in pod.spec.volumes or () if volume.config_map]
    found = await asyncio.gather(*(_see(client.get(CONFIG_MAPS, name, namespace=pod.namespace)) for name in names))
    return {name: one for name, one in zip(names, found, strict=True) if isinstance(one, ConfigMap)}


async def _probe(client: KubeClient, installation: InstallationFacts, namespace: str) -> Probe | Unseen:
    profile = installation.catalog.find("NVIDIA") or next(iter(installation.catalog), None)
    if profile is None:
        return Unseen("the device configuration has no vendor whose cards a pod could ask for")
    body = _describe_probe(profile.resources.count)
    try:
        pod: Pod = await client.create(PODS, body, namespace=namespace, dry_run=True)
    except (UnreachableError, UnauthorizedError):
        raise
    except ApiError as error:
        if f'webhook "{WEBHOOK_NAME}" denied' in error.message:
            return Probe(installation.scheduler_name)  # It answered, and that is the question.
        if f'failed calling webhook "{WEBHOOK_NAME}"' in error.message:
            return Probe(refusal=error.message)
        if denied := _OTHER_SCHEDULER.search(error.message):
            return Probe(denied.group(1))
        return Unseen(f"a pod cannot be created in namespace {namespace}, not even in a dry run: {error}")
    return Probe(pod.spec.scheduler_name)


def _describe_probe(resource: str) -> dict[str, Any]:
    """Describe a pod with a card that every namespace lets in."""
    closed = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {
        "name": "probe",
        "image": "gpuloom.io/doctor",
        "securityContext": closed,
        "resources": {"limits": {resource: "1"}},
    }
    secure = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "metadata": {"generateName": "gpuloom-doctor-"},
        "spec": {"restartPolicy": "Never", "securityContext": secure, "containers": [container]},
    }
