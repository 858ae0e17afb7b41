"""Kubelets of all nodes of a real control plane, played."""

import asyncio
from contextlib import aclosing, suppress
from typing import Any, Self

from gpuloom.kube import PODS, ApiError, Applied, InitialObject, KubeClient, Reflector
from gpuloom.wire.objects import Pod


class PlayedKubelets:
    """Kubelets of all nodes: bound pods run, deleted ones are gone after a while, except those that hang.

    gone_s   the loop's time at which pods were gone, by name; ``bound_s`` when they were seen bound
    bound    UID and node of each, in the order in which they were
    """

    def __init__(self, client: KubeClient, *, ends_after_s: float = 0.3) -> None:
        self.hanging: set[str] = set()
        self.gone_s: dict[str, float] = {}
        self.bound_s: dict[str, float] = {}
        self.bound: list[tuple[str, str]] = []
        self._client = client
        self._ends_after_s = ends_after_s
        self._seen: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._start(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def end(self, pod: Pod) -> None:
        """Let a pod be gone."""
        with suppress(ApiError):
            await self._client.delete(PODS, pod.name, namespace=pod.namespace, grace_period_s=0, uid=pod.metadata.uid)
            self.gone_s[pod.name] = asyncio.get_running_loop().time()

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self) -> None:
        async with aclosing(Reflector(self._client, PODS).events()) as events:
            async for event in events:
                if isinstance(event, Applied | InitialObject) and event.object.spec.node_name:
                    self._take(event.object)

    def _take(self, pod: Pod) -> None:
        stage = "ends" if pod.is_terminating else "runs"
        if self._seen.get(pod.metadata.uid) == stage or pod.name in self.hanging:
            return
        self._seen[pod.metadata.uid] = stage
        if stage == "runs":
            self.bound_s.setdefault(pod.name, asyncio.get_running_loop().time())
            self.bound.append((pod.metadata.uid, pod.spec.node_name))
        self._start(self._end_later(pod) if pod.is_terminating else self._run(pod))

    async def _end_later(self, pod: Pod) -> None:
        await asyncio.sleep(self._ends_after_s)
        await self.end(pod)

    async def _run(self, pod: Pod) -> None:
        ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady", "Initialized")]
        body = {"status": {"phase": "Running", "conditions": ready}}
        with suppress(ApiError):
            await self._client.patch(
                PODS, pod.name, body, namespace=pod.namespace, subresource="status", lists_by_key=True
            )
