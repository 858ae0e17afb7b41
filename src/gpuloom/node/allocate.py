"""Allocate from the kubelet's call to the finished pod: find it, grant, write back, release the node lock.

One call at a time. What is granted is decided in :mod:`gpuloom.node.plan`; this module only talks to the API server
and prepares directories. Source: device plugin 10, binding 3.
"""

import asyncio
import uuid
from collections.abc import Callable, Sequence

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError, NotFoundError
from gpuloom.kube.resources import NODES, PODS
from gpuloom.node.claim import check_owner, choose_candidate
from gpuloom.node.clock import Sleep
from gpuloom.node.errors import AllocationError
from gpuloom.node.hostfiles import has_license, prepare_directories
from gpuloom.node.plan import AllocatePlan, Grant, plan_allocation
from gpuloom.node.settings import NodeSettings
from gpuloom.node.writes import patch_pod_annotations, read_lock, release_lock
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.lock import NodeLock
from gpuloom.wire.objects import Pod

_log = structlog.get_logger(__name__)


def _make_cache_id() -> str:
    return str(uuid.uuid4())


class Allocator:
    """Serves the containers of one node, one Allocate call after the other."""

    def __init__(
        self,
        settings: NodeSettings,
        client: KubeClient,
        *,
        make_cache_id: Callable[[], str] = _make_cache_id,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._client = client
        self._make_cache_id = make_cache_id
        self._sleep = sleep
        self._turn = asyncio.Lock()

    async def allocate(self, counts: Sequence[int]) -> tuple[Grant, ...]:
        """Grant one container for each of `counts`, which are numbers of devices.

        Raises AllocationError. Once the pod is known it is then marked as failed and its node lock is released.
        """
        if not counts or not all(counts):
            raise AllocationError("the kubelet asked for no device at all: an empty request cannot be served")
        async with self._turn:
            pod = await self._find_pod(counts)
            try:
                plan = self._prepare(pod, counts)
                await self._write_back(pod, plan)
            except (AllocationError, ApiError, OSError) as error:
                await self._give_up(pod)
                raise AllocationError(str(error)) from error
            if plan.is_complete:
                await self._release(pod)
            _log.info(
                "allocated",
                pod=pod.full_name,
                containers=[grant.container for grant in plan.grants],
                complete=plan.is_complete,
            )
            return plan.grants

    async def _find_pod(self, counts: Sequence[int]) -> Pod:
        node_name = self._settings.node_name
        try:
            node = await self._client.get(NODES, node_name)
            if lock := read_lock(node):
                return await self._find_owner(lock)
            pods, _ = await self._client.list_all(PODS, field_selector=f"spec.nodeName={node_name}")
        except ApiError as error:
            raise AllocationError(f"cannot find the pod to allocate for on node {node_name}: {error}") from error
        except WireError as error:
            raise AllocationError(f"node {node_name}, annotation {keys.NODE_LOCK}: {error}") from error
        return choose_candidate(pods, counts, self._settings)

    async def _find_owner(self, lock: NodeLock) -> Pod:
        try:
            pod = await self._client.get(PODS, lock.name, namespace=lock.namespace)
        except NotFoundError as error:
            raise AllocationError(
                f"pod {lock.namespace}/{lock.name} holds the lock of node {self._settings.node_name} but does not exist"
            ) from error
        check_owner(pod, self._settings)
        return pod

    def _prepare(self, pod: Pod, counts: Sequence[int]) -> AllocatePlan:
        plan = plan_allocation(
            pod,
            counts,
            self._settings,
            make_cache_id=self._make_cache_id,
            has_license=has_license(self._settings),
        )
        prepare_directories((grant.cache_dir for grant in plan.grants), self._settings)
        return plan

    async def _write_back(self, pod: Pod, plan: AllocatePlan) -> None:
        annotations = {keys.DEVICES_TO_ALLOCATE: plan.to_allocate}
        if plan.is_complete:
            annotations[keys.BIND_PHASE] = keys.PHASE_SUCCESS
        await patch_pod_annotations(self._client, pod, annotations, sleep=self._sleep)

    async def _give_up(self, pod: Pod) -> None:
        try:
            await patch_pod_annotations(self._client, pod, {keys.BIND_PHASE: keys.PHASE_FAILED}, sleep=self._sleep)
        except ApiError as error:
            _log.warning("pod cannot be marked as failed", pod=pod.full_name, error=str(error))
        await self._release(pod)

    async def _release(self, pod: Pod) -> None:
        try:
            await release_lock(self._client, self._settings.node_name, pod, sleep=self._sleep)
        except ApiError as error:
            # The scheduler takes the lock over from a pod that is done; the container need not suffer.
            _log.error(
                "node lock cannot be released", node=self._settings.node_name, pod=pod.full_name, error=str(error)
            )
