"""The loop: one scheduling cycle after the other, binds beside it, as kube-scheduler does.

It knows nothing of cards; whoever wants pods with cards placed gives it an extender.
"""

import asyncio
from contextlib import aclosing
from types import TracebackType
from typing import Literal, Self

import structlog

from gpuloom.engine.hostfit.demand import read_host_demand
from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError, NotFoundError
from gpuloom.kube.podevents import record
from gpuloom.kube.recorder import EventRecorder
from gpuloom.kube.reflector import InitialListComplete, Reflector
from gpuloom.kube.resources import NODES
from gpuloom.local.queue.backlog import Backlog
from gpuloom.local.queue.cluster_view import ClusterView
from gpuloom.local.queue.extender import ExtenderClient, ExtenderError
from gpuloom.local.queue.pods import (
    MANAGED_RESOURCES,
    QUEUED_PODS,
    WHOLE_PODS,
    QueuedPod,
    WholePod,
    asks_extender,
    explain_refusal,
    refuse_node,
    set_condition,
)
from gpuloom.local.queue.timekeeper import RealTime, Timekeeper

_BIND_TIMEOUT_S = 30.0

log = structlog.get_logger(__name__)


class _NoNodeError(Exception):
    """The pod fits nowhere now; the message is kube-scheduler's sentence."""


class PodQueue:
    """Finds nodes for the pods of one scheduler name while its ``async with`` block lasts.

    ``recorder`` writes the pods' events under that name. Without an extender all pods are bound here; with one, those
    that name none of the ``managed`` resources are. At most ``parallel_binds`` binds run at once; then the next cycle
    waits. Failures of the API server or the extender are retried per pod with a backoff and never end the queue.
    """

    def __init__(
        self,
        client: KubeClient,
        extender: ExtenderClient | None,
        recorder: EventRecorder,
        scheduler_name: str,
        *,
        backoff_initial_s: float = 1.0,
        backoff_max_s: float = 10.0,
        parallel_binds: int = 16,
        managed: frozenset[str] = MANAGED_RESOURCES,
        time: Timekeeper | None = None,
    ) -> None:
        self._client = client
        self._extender = extender
        self._recorder = recorder
        self._managed = managed
        self._time = time or RealTime()
        self._backlog = Backlog(backoff_initial_s=backoff_initial_s, backoff_max_s=backoff_max_s)
        self._view = ClusterView(scheduler_name, self._backlog, self._time, managed)
        self._changed = asyncio.Event()
        self._nodes_known = asyncio.Event()
        self._bind_slots = asyncio.Semaphore(parallel_binds)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="pod queue")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and (failure := task.exception()):
            raise failure

    async def wait_failed(self) -> None:
        """Wait until the queue ends by itself, which it should not, and raise what ended it."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_pods(), name="pod queue: pods")
            tasks.create_task(self._watch_nodes(), name="pod queue: nodes")
            tasks.create_task(self._schedule(tasks), name="pod queue: cycles")

    async def _watch_pods(self) -> None:
        async with aclosing(Reflector(self._client, QUEUED_PODS).events()) as events:
            async for event in events:
                self._view.apply_pod_event(event)
                self._changed.set()

    async def _watch_nodes(self) -> None:
        async with aclosing(Reflector(self._client, NODES).events()) as events:
            async for event in events:
                self._view.apply_node_event(event)
                self._changed.set()
                if isinstance(event, InitialListComplete):
                    self._nodes_known.set()

    async def _schedule(self, tasks: asyncio.TaskGroup) -> None:
        await self._nodes_known.wait()
        while True:
            self._changed.clear()
            pod = self._backlog.take(self._time.now())
            if pod is not None:
                await self._try_pod(pod, tasks)
                continue
            due = self._backlog.next_due()
            await self._time.wait(self._changed, None if due is None else max(due - self._time.now(), 0.0))

    async def _try_pod(self, pod: QueuedPod, tasks: asyncio.TaskGroup) -> None:
        uid = pod.metadata.uid
        try:
            whole = await self._client.get(WHOLE_PODS, pod.name, namespace=pod.namespace)
            if whole.metadata.get("uid") != uid:
                self._backlog.drop(uid)
                return
            node = await self._choose_node(pod, whole)
        except NotFoundError:
            self._backlog.drop(uid)
        except _NoNodeError as refusal:
            self._backlog.refuse(uid, self._time.now())
            await self._report(pod, whole, "Unschedulable", str(refusal))
        except ExtenderError as error:
            self._backlog.fail(uid, self._time.now())
            await self._report(pod, whole, "SchedulerError", str(error))
        except ApiError as error:
            log.warning("pod cannot be read, trying again", pod=pod.full_name, error=str(error))
            self._backlog.fail(uid, self._time.now())
        else:
            await self._bind_slots.acquire()
            tasks.create_task(self._bind(pod, node), name=f"pod queue: bind {pod.full_name}")

    async def _choose_node(self, pod: QueuedPod, whole: WholePod) -> str:
        demand = read_host_demand(pod, self._managed)
        refusals = {
            name: refuse_node(node, self._view.usage.on(name), demand) for name, node in self._view.nodes.items()
        }
        offered = sorted(name for name, refusal in refusals.items() if not refusal)
        if not offered:
            raise _NoNodeError(explain_refusal(refusals.values()))
        if self._extender is None or not asks_extender(pod, self._managed):
            return self._view.least_used(offered)
        result = await self._extender.filter(whole, offered)
        chosen = [name for name in result.node_names or () if name in offered]
        if chosen:
            return chosen[0]
        refused = {**(result.failed_nodes or {}), **(result.failed_and_unresolvable_nodes or {})}
        refusals.update({name: (refusal,) for name, refusal in refused.items() if refusal})
        raise _NoNodeError(explain_refusal(refusal or ("rejected by the extender",) for refusal in refusals.values()))

    async def _bind(self, pod: QueuedPod, node: str) -> None:
        try:
            if self._extender is not None and asks_extender(pod, self._managed):
                await self._extender.bind(namespace=pod.namespace, name=pod.name, uid=pod.metadata.uid, node=node)
            else:
                await self._client.bind(
                    namespace=pod.namespace,
                    name=pod.name,
                    uid=pod.metadata.uid,
                    node=node,
                    annotations={},
                    labels={},
                    timeout_s=_BIND_TIMEOUT_S,
                )
        except (ExtenderError, ApiError) as error:
            self._backlog.fail(pod.metadata.uid, self._time.now())
            self._record(pod, "Warning", "FailedScheduling", f"binding rejected: {error}")
        else:
            self._record(pod, "Normal", "Scheduled", f"Successfully assigned {pod.full_name} to {node}")
        finally:
            self._bind_slots.release()
            self._changed.set()

    async def _report(self, pod: QueuedPod, whole: WholePod, reason: str, message: str) -> None:
        self._record(pod, "Warning", "FailedScheduling", message)
        conditions = set_condition(whole.status.get("conditions") or [], reason, message)
        if conditions is None:
            return
        body = {"status": {"conditions": conditions}}
        try:
            await self._client.patch(QUEUED_PODS, pod.name, body, namespace=pod.namespace, subresource="status")
        except NotFoundError:
            self._backlog.drop(pod.metadata.uid)
        except ApiError as error:
            log.warning("pod status cannot be written", pod=pod.full_name, error=str(error))

    def _record(self, pod: QueuedPod, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        record(self._recorder, pod, type_, reason, message)
