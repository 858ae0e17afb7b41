"""The pods of one node, one after another: admitted with their devices, reported, and ended when deleted."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError, NotFoundError
from gpuloom.kube.reflector import Applied, Deleted, InitialListBegins, InitialListComplete, InitialObject, Reflector
from gpuloom.kube.resources import FULL_PODS
from gpuloom.local.kubelet.errors import AdmissionError
from gpuloom.local.kubelet.ledger import DeviceLedger
from gpuloom.local.kubelet.statuses import report_refused, report_running
from gpuloom.node.api import deviceplugin_pb2 as api
from gpuloom.wire.fullpods import FullContainer, FullPod
from gpuloom.wire.quantity import decode_strict_integer

RETRY_S = 0.5
_log = structlog.get_logger(__name__)

ContainerKey = tuple[str, str, str]
"""Namespace, pod and container."""


class Plugins(Protocol):
    """The device plugins, by the resource that each one serves."""

    async def allocate(self, resource: str, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        """Ask for one container with these ids.

        Raises AdmissionError.
        """

    async def prefer(
        self, resource: str, available: Sequence[str], required: Sequence[str], size: int
    ) -> Sequence[str]:
        """Ask which of the available ids the plugin prefers; empty where it has no preference."""


class PodWorker:
    """Follows the pods bound to a node and brings each to where a kubelet would.

    ``environments``, ``mounts``, ``answers`` and ``devices`` (ids by resource) hold what the containers of the present
    pods were given.
    """

    def __init__(self, node_name: str, client: KubeClient, ledger: DeviceLedger, plugins: Plugins) -> None:
        self.environments: dict[ContainerKey, Mapping[str, str]] = {}
        self.mounts: dict[ContainerKey, Mapping[str, str]] = {}
        self.answers: dict[ContainerKey, Sequence[api.ContainerAllocateResponse]] = {}
        self.devices: dict[ContainerKey, Mapping[str, Sequence[str]]] = {}
        self._client = client
        self._ledger = ledger
        self._plugins = plugins
        self._reflector = Reflector(client, FULL_PODS, field_selector=f"spec.nodeName={node_name}")
        self._queue = _PodQueue()
        self._admitted: dict[str, FullPod] = {}
        self._reports: dict[str, dict[str, Any]] = {}
        self._refused: set[str] = set()

    @property
    def known(self) -> Sequence[FullPod]:
        """The pods that were taken in, or are being taken in now."""
        return [pod for uid, pod in self._admitted.items() if uid not in self._refused]

    async def follow(self) -> None:
        """Learn of pods until cancelled."""
        listed: set[str] = set()
        async for event in self._reflector.events():
            match event:
                case InitialListBegins():
                    listed = set()
                case InitialObject(pod):
                    listed.add(pod.metadata.uid)
                    self._queue.put(pod)
                case InitialListComplete():
                    for uid in self._admitted.keys() - listed:
                        self._forget(uid)
                case Applied(pod):
                    self._queue.put(pod)
                case Deleted(pod):
                    self._forget(pod.metadata.uid)

    async def work(self) -> None:
        """Handle pods until cancelled; one that the API server does not answer for is tried again."""
        while True:
            pod = await self._queue.take()
            try:
                await self._sync(pod)
            except NotFoundError:
                self._forget(pod.metadata.uid)
            except ApiError as error:
                _log.warning("pod not synced", pod=pod.full_name, error=str(error), retry_s=RETRY_S)
                await asyncio.sleep(RETRY_S)
                self._queue.put_back(pod)

    async def _sync(self, pod: FullPod) -> None:
        uid = pod.metadata.uid
        if pod.is_terminating:
            await self._client.delete(FULL_PODS, pod.name, namespace=pod.namespace, grace_period_s=0)
            self._forget(uid)
        elif pod.is_over:
            self._ledger.free(uid)
        elif pod.status.phase != "Running":
            if uid not in self._reports:
                self._admitted[uid] = pod
                self._reports[uid] = await self._admit(pod)
            body = self._reports[uid]
            await self._client.patch(FULL_PODS, pod.name, body, namespace=pod.namespace, subresource="status")

    async def _admit(self, pod: FullPod) -> dict[str, Any]:
        """Give the pod its devices; the status to report."""
        uid = pod.metadata.uid
        reusable: frozenset[str] = frozenset()
        try:
            for container in pod.init_containers:
                await self._start(pod, container, reusable)
                if not container.is_sidecar:
                    reusable = self._ledger.held_by(uid)
            for container in pod.containers:
                await self._start(pod, container, reusable)
        except AdmissionError as error:
            _log.info("pod refused", pod=pod.full_name, error=str(error))
            self._ledger.free(uid)
            self._refused.add(uid)
            self._forget_devices(pod)
            return report_refused(str(error), now())
        return report_running(pod, now())

    async def _start(self, pod: FullPod, container: FullContainer, reusable: frozenset[str]) -> None:
        environment: dict[str, str] = {}
        mounts: dict[str, str] = {}
        answers: list[api.ContainerAllocateResponse] = []
        devices: dict[str, Sequence[str]] = {}
        for resource, quantity in container.limits.items():
            count = decode_strict_integer(quantity) or 0
            if count and self._ledger.manages(resource):
                devices[resource] = await self._pick(resource, count, pod, reusable)
                response = await self._plugins.allocate(resource, devices[resource])
                answers.append(response)
                environment |= response.envs
                mounts |= {mount.container_path: mount.host_path for mount in response.mounts}
        # What the pod says about a variable wins over the plugin, as in the kubelet.
        environment |= {variable.name: variable.value for variable in container.env or ()}
        key = (pod.namespace, pod.name, container.name)
        self.environments[key] = environment
        self.mounts[key] = mounts
        self.answers[key] = answers
        self.devices[key] = devices

    async def _pick(self, resource: str, count: int, pod: FullPod, reusable: frozenset[str]) -> Sequence[str]:
        required = sorted(reusable)[:count]
        available = (*required, *self._ledger.find_free(resource))
        preferred = await self._plugins.prefer(resource, available, required, count)
        return self._ledger.pick(resource, count, pod_uid=pod.metadata.uid, reusable=reusable, preferred=preferred)

    def _forget(self, uid: str) -> None:
        self._queue.drop(uid)
        self._ledger.free(uid)
        self._reports.pop(uid, None)
        self._refused.discard(uid)
        if pod := self._admitted.pop(uid, None):
            self._forget_devices(pod)

    def _forget_devices(self, pod: FullPod) -> None:
        for container in pod.all_containers:
            key = (pod.namespace, pod.name, container.name)
            self.environments.pop(key, None)
            self.mounts.pop(key, None)
            self.answers.pop(key, None)
            self.devices.pop(key, None)


class _PodQueue:
    """Pods to look at, each once and in its latest state: never more entries than there are pods."""

    def __init__(self) -> None:
        self._pods: dict[str, FullPod] = {}
        self._wake = asyncio.Event()

    def put(self, pod: FullPod) -> None:
        self._pods[pod.metadata.uid] = pod
        self._wake.set()

    def put_back(self, pod: FullPod) -> None:
        """Take it again later, unless there is a newer state of it by now."""
        self._pods.setdefault(pod.metadata.uid, pod)
        self._wake.set()

    def drop(self, uid: str) -> None:
        self._pods.pop(uid, None)

    async def take(self) -> FullPod:
        while not self._pods:
            self._wake.clear()
            await self._wake.wait()
        return self._pods.pop(next(iter(self._pods)))


def now() -> str:
    """Give the present time as Kubernetes writes it: RFC 3339 with seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
