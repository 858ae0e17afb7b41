"""Device plugins of many nodes without kubelets, played: a pod that is handed over is served.

One write a pod, as gpuloom's device plugin makes it: phase `success` on the pod. As HAMi's, two: then the lock is taken
off the node.
"""

import asyncio
from collections import defaultdict
from contextlib import aclosing
from typing import Any, Self

from gpuloom.kube import NODES, PODS, ApiError, Applied, InitialObject, KubeClient, NotFoundError, Reflector
from gpuloom.wire.objects import Pod
from harness.accounts import COMPONENT, PLUGIN

LOCK = "hami.io/mutex.lock"
PHASE = "hami.io/bind-phase"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
SERVED: dict[str, Any] = {"metadata": {"annotations": {PHASE: "success", TO_ALLOCATE: ";"}}}
DUMMY = "gpuloom.io/served-last"
RETRY_S = 0.2


class PlayedPlugins:
    """The plugins of all nodes, as an async context manager. `allocate_s` is an Allocate's time.

    `taken_s` says when pods were seen bound, `served_s` when they were served, in seconds of the loop's clock.

    With `dummy`, the same writes are made for every bound pod, whatever its phase: what a plugin costs alone. With
    `locks` there are two of them, with `reads_locks` the second where the node has a lock that names the pod.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        allocate_s: float = 0.0,
        dummy: bool = False,
        locks: bool = False,
        reads_locks: bool = False,
    ):
        """Prepare the plugins; `client` goes straight to the API server."""
        self.taken_s: list[float] = []
        self.served_s: list[float] = []
        self._client = client
        self._allocate_s = allocate_s
        self._dummy = dummy
        self._locks = locks
        self._reads_locks = reads_locks
        self._progress = asyncio.Event()
        self._waiting: dict[str, asyncio.Queue[Pod]] = defaultdict(asyncio.Queue)
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._seen: set[str] = set()
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [task for task in (self._watching, *self._workers.values()) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait_served(self, pods: int) -> None:
        """Wait until so many pods were served."""
        while len(self.served_s) < pods:
            self._progress.clear()
            await self._progress.wait()

    async def _watch(self) -> None:
        async with aclosing(Reflector(self._client, PODS).events()) as events:
            async for event in events:
                if isinstance(event, Applied | InitialObject):
                    self._take(event.object)

    def _take(self, pod: Pod) -> None:
        node, uid = pod.spec.node_name, pod.metadata.uid
        is_handed_over = self._dummy or pod.annotations.get(PHASE) == "allocating"
        if pod.labels.get(COMPONENT) == PLUGIN:
            return
        if not node or uid in self._seen or not is_handed_over or pod.is_over or pod.is_terminating:
            return
        self._seen.add(uid)
        self.taken_s.append(asyncio.get_running_loop().time())
        self._waiting[node].put_nowait(pod)
        if node not in self._workers:
            self._workers[node] = asyncio.create_task(self._work(node))

    async def _work(self, node: str) -> None:
        while True:
            pod = await self._waiting[node].get()
            await asyncio.sleep(self._allocate_s)
            await self._serve(pod, node)
            self.served_s.append(asyncio.get_running_loop().time())
            self._progress.set()

    async def _serve(self, pod: Pod, node: str) -> None:
        body = {"metadata": {**SERVED["metadata"], "uid": pod.metadata.uid}}
        await self._insist(PODS, pod.name, body, namespace=pod.namespace)
        if self._locks:
            await self._release(pod, node)
        elif self._reads_locks:
            await self._release_own(pod, node)

    async def _release(self, pod: Pod, node: str) -> None:
        """Remove the lock; after a failure only if it still names the pod, as a new owner may have it by then."""
        # A dummy changes something too: a write that changes nothing costs the API server next to nothing.
        annotations = {DUMMY: pod.metadata.uid} if self._dummy else {LOCK: None}
        try:
            await self._client.patch(NODES, node, {"metadata": {"annotations": annotations}})
        except ApiError:
            await asyncio.sleep(RETRY_S)
            await self._release_own(pod, node)

    async def _release_own(self, pod: Pod, node: str) -> None:
        while True:
            try:
                found = await self._client.get(NODES, node)
                if not found.annotations.get(LOCK, "").endswith(f",{pod.namespace},{pod.name}"):
                    return
                version = found.metadata.resource_version
                body = {"metadata": {"annotations": {LOCK: None}}}
                await self._client.patch(NODES, node, body, resource_version=version)
            except ApiError:
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _insist(self, resource: Any, name: str, body: Any, *, namespace: str = "") -> None:
        """Write until it is written, or until the object is gone or another of its name."""
        while True:
            try:
                await self._client.patch(resource, name, body, namespace=namespace)
            except NotFoundError:
                return
            except ApiError as error:
                if "uid" in str(error).lower():
                    return
                await asyncio.sleep(RETRY_S)
            else:
                return
