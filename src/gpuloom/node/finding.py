"""Find the pod that an Allocate call is for: ask the API server and the kubelet, and wait while it is not clear.

:mod:`gpuloom.node.claim` decides by their answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError, NotFoundError
from gpuloom.kube.resources import FULL_PODS, NODES
from gpuloom.node.claim import AllocateCall, check_call, check_owner, choose_candidate, find_told
from gpuloom.node.clock import Sleep
from gpuloom.node.errors import AllocationError, KubeletError, UnclearError
from gpuloom.node.knownpods import Book
from gpuloom.node.kubeletbook import read_book_if_shown
from gpuloom.node.replicas import SLICE_MARK, is_instance
from gpuloom.node.settings import NodeSettings
from gpuloom.node.writes import read_lock
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.lock import NodeLock

_PATIENCE_S = (0.1, 0.2, 0.4, 0.8, 1.5, 2.0)
"""How long a call is tried again until its pod is clear; the kubelet does nothing else meanwhile."""

_DEADLINE_S = 10.0
"""Longest time of a call in all, also when an API server does not answer."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FoundPod:
    """The pod of a call, the call with what was known then, and whether the node lock names the pod."""

    pod: FullPod
    call: AllocateCall
    has_lock: bool


class PodFinder:
    """Finds pods of one node. ``read_book`` returns what the kubelet knows; by default its socket is asked."""

    def __init__(
        self,
        settings: NodeSettings,
        client: KubeClient,
        read_book: Callable[[], Awaitable[Book | None]] | None,
        *,
        sleep: Sleep,
    ) -> None:
        self._settings = settings
        self._client = client
        self._read_book = read_book or partial(
            read_book_if_shown, settings.pod_resources_socket, settings.resource_name
        )
        self._sleep = sleep
        self._served: set[str] = set()

    def note_served(self, pod: FullPod) -> None:
        """Note that a pod got all it asked for, so that no later call is for it."""
        self._served.add(pod.metadata.uid)

    async def wait(self, requests: Sequence[Sequence[str]]) -> FoundPod:
        """Return the pod of a call for these ids; while it may be another's, wait a moment for its kubelet.

        Raises AllocationError; then nothing was changed.
        """
        try:
            async with asyncio.timeout(_DEADLINE_S):
                return await self._wait(requests)
        except TimeoutError as error:
            raise AllocationError(
                f"cannot find the pod to allocate for on node {self._settings.node_name} in {_DEADLINE_S:g} s"
            ) from error

    async def _wait(self, requests: Sequence[Sequence[str]]) -> FoundPod:
        counts = [len(ids) for ids in requests]
        instances = [each for ids in requests for each in ids if is_instance(each) and SLICE_MARK not in each]
        for delay_s in _PATIENCE_S:
            try:
                return await self.find(counts, instances)
            except UnclearError as error:
                _log.info("allocation waits", node=self._settings.node_name, reason=str(error))
                await self._sleep(delay_s)
        return await self.find(counts, instances)

    async def find(self, counts: Sequence[int], instances: Sequence[str] = ()) -> FoundPod:
        """Return the pod of a call for these numbers of devices, one for each container.

        Raises AllocationError, UnclearError when it may become clear in a moment.
        """
        node_name = self._settings.node_name
        try:
            node = await self._client.get(NODES, node_name)
            lock = read_lock(node)
            book = await self._see_book()
            # Without the book, a pod that cannot be read could be the one that asks.
            pods, _ = await self._client.list_all(
                FULL_PODS, field_selector=f"spec.nodeName={node_name}", must_read_all=book is None
            )
            self._served.intersection_update(pod.metadata.uid for pod in pods)
            call = AllocateCall(counts, pods, book, self._served, instances)
            pod = find_told(call, self._settings)
            if pod is None:
                pod = await self._find_owner(lock, pods) if lock else choose_candidate(call, self._settings)
        except ApiError as error:
            # A refusal is final: the kubelet fails the pod. So an API server that is away gets a moment.
            refusal = UnclearError if error.outcome_unknown else AllocationError
            raise refusal(f"cannot find the pod to allocate for on node {node_name}: {error}") from error
        except WireError as error:
            raise AllocationError(f"node {node_name}, annotation {keys.NODE_LOCK}: {error}") from error
        check_call(pod, call, self._settings)
        return FoundPod(pod, call, has_lock=lock is not None and lock.is_held_by(pod.namespace, pod.name))

    async def _see_book(self) -> Book | None:
        try:
            return await self._read_book()
        except KubeletError as error:
            raise UnclearError(f"cannot tell which pod of node {self._settings.node_name} asks: {error}") from error

    async def _find_owner(self, lock: NodeLock, pods: Sequence[FullPod]) -> FullPod:
        node_name = self._settings.node_name
        pod = next((pod for pod in pods if lock.is_held_by(pod.namespace, pod.name)), None)
        if pod is not None:
            check_owner(pod, self._settings)
            return pod
        try:
            check_owner(await self._client.get(FULL_PODS, lock.name, namespace=lock.namespace), self._settings)
        except NotFoundError as error:
            raise AllocationError(
                f"pod {lock.namespace}/{lock.name} holds the lock of node {node_name} but does not exist"
            ) from error
        raise UnclearError(f"pod {lock.namespace}/{lock.name} was bound to node {node_name} while its pods were listed")
