"""Find the pod that an Allocate call is for: ask the API server and the kubelet, and wait while it is not clear.

:mod:`gpuloom.node.asking_pod` decides by their answers. Where a watch shows the pods, they are not asked for: then the
pod is confirmed after its grant was written.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError, NotFoundError
from gpuloom.kube.resources import FULL_PODS, NODES
from gpuloom.node.asking_pod import (
    AllocateCall,
    check_call,
    check_owner,
    choose_candidate,
    find_readers,
    find_told,
    find_unheard,
)
from gpuloom.node.boundpods import bound_pods
from gpuloom.node.clock import Sleep
from gpuloom.node.errors import AllocationError, KubeletError, UnclearError
from gpuloom.node.knownpods import Book
from gpuloom.node.kubeletbook import read_book_if_shown
from gpuloom.node.naming import phrase
from gpuloom.node.nodewatch import NodeWatch
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

_SHOWN_IN_S = 1.0
"""Longest wait for a watch to show a write; after that the pods are listed."""

_LAG_S = 0.1
"""Longest silence of a watch behind the kubelet, which may hear of a pod first."""

_MOST_LOOKS = 4
"""So often what the watch shows is looked at for one call, as changes come."""

_R = TypeVar("_R")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FoundPod:
    """The pod of a call, the call with what was known then, and the node lock if that names the pod.

    With ``is_shown`` a watch showed the pods, nobody looked for a lock, and the pod must be confirmed. With
    ``is_repeated`` the pod was granted this before, and what it has left to allocate is made up.
    """

    pod: FullPod
    call: AllocateCall
    lock: NodeLock | None = None
    is_shown: bool = False
    is_repeated: bool = False


class PodFinder:
    """Finds pods of one node. ``read_book`` returns what the kubelet knows; by default its socket is asked.

    Without ``watch`` the API server is asked for every call.
    """

    def __init__(
        self,
        settings: NodeSettings,
        client: KubeClient,
        read_book: Callable[[], Awaitable[Book | None]] | None,
        *,
        sleep: Sleep,
        watch: NodeWatch | None = None,
    ) -> None:
        self._settings = settings
        self._client = client
        self._watch = watch
        self._read_book = read_book or partial(
            read_book_if_shown, settings.pod_resources_socket, settings.resource_name
        )
        self._sleep = sleep
        self._bound_pods = bound_pods(settings.resource_name, own_lists=settings.own_lists)
        self._served: set[str] = set()

    def note_served(self, pod: FullPod) -> None:
        """Note that a pod got all it asked for, so that no later call is for it."""
        self._served.add(pod.metadata.uid)

    def forget_served(self) -> None:
        """Forget which pods got all they asked for: whoever asks now may not have heard it."""
        self._served.clear()

    async def wait(self, counts: Sequence[int], instances: Sequence[str]) -> FoundPod:
        """Return the pod of a call, as the API server says; while it may be another's, wait a moment for its kubelet.

        Raises AllocationError; then nothing was changed.
        """
        return await self._insist(lambda: self.find(counts, instances))

    async def find_shown(self, counts: Sequence[int], instances: Sequence[str] = ()) -> FoundPod | None:
        """Return the pod of a call for these numbers of devices, as the watch and the kubelet's book say.

        A watch that is behind the kubelet gets a moment. Return None where they do not tell, or say no. The pod is to
        be confirmed when its grant is written.
        """
        watch = self._watch
        if watch is None:
            return None
        try:
            for _ in range(_MOST_LOOKS):
                book = await self._read_book() if watch.pods.are_all_told else None
                if book is None:
                    break
                found = self._look(watch, AllocateCall(counts, tuple(watch.pods.all), book, self._served, instances))
                if found is not None or not await watch.pods.wait_changed(_LAG_S):
                    return found
        except (AllocationError, KubeletError) as error:
            _log.info("the watch does not tell", node=self._settings.node_name, reason=str(error))
        return None

    def _look(self, watch: NodeWatch, call: AllocateCall) -> FoundPod | None:
        """Return the pod of a call if the watch shows it, and every other that the kubelet's book names."""
        if call.book is None or not watch.knows(call.book):
            return None
        self._served.intersection_update(watch.pods.by_uid)
        pod = find_told(call, self._settings)
        if pod is None:
            return None
        check_call(pod, call, self._settings)
        return FoundPod(pod, call, is_shown=True)

    async def confirm(self, found: FoundPod, written: FullPod) -> FoundPod:
        """Return a pod that a watch showed with the call as it is known after ``written``, what its grant made of it.

        Raises AllocationError when the call may be another pod's after all.
        """
        if self._watch is not None and await self._watch.pods.wait_shown(written, _SHOWN_IN_S):
            try:
                return self._check_again(found, tuple(self._watch.pods.all), found.call.book)
            except UnclearError as error:
                _log.info("allocation waits", node=self._settings.node_name, reason=str(error))
        return await self._insist(lambda: self._look_again(found))

    async def _look_again(self, found: FoundPod) -> FoundPod:
        book = await self._see_book()
        return self._check_again(found, await self._list_pods(book), book)

    def _check_again(self, found: FoundPod, pods: Sequence[FullPod], book: Book | None) -> FoundPod:
        others = [pod for pod in pods if pod.metadata.uid != found.pod.metadata.uid]
        call = replace(found.call, pods=(found.pod, *others), book=book)
        check_call(found.pod, call, self._settings)
        return replace(found, call=call)

    async def _insist(self, attempt: Callable[[], Awaitable[_R]]) -> _R:
        """Try until it is clear. Raises AllocationError when it is not in time."""
        try:
            async with asyncio.timeout(_DEADLINE_S):
                for delay_s in _PATIENCE_S:
                    try:
                        return await attempt()
                    except UnclearError as error:
                        _log.info("allocation waits", node=self._settings.node_name, reason=str(error))
                        await self._sleep(delay_s)
                return await attempt()
        except TimeoutError as error:
            raise AllocationError(
                f"cannot find the pod to allocate for on node {self._settings.node_name} in {_DEADLINE_S:g} s"
            ) from error

    async def find(self, counts: Sequence[int], instances: Sequence[str] = ()) -> FoundPod:
        """Return the pod of a call for these numbers of devices, one for each container.

        Raises AllocationError, UnclearError when it may become clear in a moment.
        """
        node_name = self._settings.node_name
        try:
            lock = read_lock(await self._client.get(NODES, node_name))
            book = await self._see_book()
            pods = await self._list_pods(book)
            self._served.intersection_update(pod.metadata.uid for pod in pods)
            call = AllocateCall(counts, pods, book, self._served, instances)
            told = find_told(call, self._settings)
            unheard = find_unheard(call, self._settings) if told is None else None
            pod = told or unheard
            if pod is None:
                pod = await self._find_owner(lock, call) if lock else choose_candidate(call, self._settings)
        except ApiError as error:
            raise self._refuse(error) from error
        except WireError as error:
            # The annotation may name a pod of whoever.
            place = f"node {node_name}, annotation {keys.NODE_LOCK}"
            raise AllocationError(f"{place}: {error}", f"{place}: cannot be read") from error
        check_call(pod, call, self._settings)
        own_lock = lock if lock and lock.is_held_by(pod.namespace, pod.name) else None
        return FoundPod(pod, call, own_lock, is_repeated=unheard is not None)

    async def _list_pods(self, book: Book | None) -> Sequence[FullPod]:
        """Return the pods of the node that have not ended: there may be very many of the others."""
        selector = f"spec.nodeName={self._settings.node_name},status.phase!=Succeeded,status.phase!=Failed"
        try:
            # Without the book, a pod that cannot be read could be the one that asks.
            pods, _ = await self._client.list_all(self._bound_pods, field_selector=selector, must_read_all=book is None)
        except ApiError as error:
            raise self._refuse(error) from error
        return pods

    def _refuse(self, error: ApiError) -> AllocationError:
        # A refusal is final: the kubelet fails the pod. So an API server that is away gets a moment.
        refusal = UnclearError if error.outcome_unknown else AllocationError
        what = f"cannot find the pod to allocate for on node {self._settings.node_name}"
        # What the API server says may name a pod of whoever.
        return refusal(f"{what}: {error}", f"{what}: the API server refuses to tell, or did not answer")

    async def _see_book(self) -> Book | None:
        try:
            return await self._read_book()
        except KubeletError as error:
            raise UnclearError(f"cannot tell which pod of node {self._settings.node_name} asks: {error}") from error

    async def _find_owner(self, lock: NodeLock, call: AllocateCall) -> FullPod:
        node_name = self._settings.node_name
        readers = find_readers(call, self._settings)
        pod = next((pod for pod in call.pods if lock.is_held_by(pod.namespace, pod.name)), None)
        if pod is not None:
            check_owner(pod, call, self._settings)
            return pod
        try:
            check_owner(await self._client.get(FULL_PODS, lock.name, namespace=lock.namespace), call, self._settings)
        except NotFoundError as error:
            raise AllocationError(
                *phrase(
                    lambda names: f"{names.one(lock)} holds the lock of node {node_name} but does not exist", readers
                )
            ) from error
        raise UnclearError(
            *phrase(
                lambda names: f"{names.one(lock)} was bound to node {node_name} while its pods were listed", readers
            )
        )
