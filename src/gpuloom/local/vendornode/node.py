"""A node whose cards are of any family: kubelet and node plugin in one, as the API server sees them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import UTC

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError, NotFoundError
from gpuloom.kube.reflector import Applied, InitialObject, Reflector
from gpuloom.kube.resources import NODES, PODS, Resource, T
from gpuloom.local.kubelet.pods import now
from gpuloom.local.kubelet.statuses import describe_node, report_node, report_running
from gpuloom.local.vendornode.machine import VendorMachine
from gpuloom.vendors.catalog import Catalog
from gpuloom.wire import keys
from gpuloom.wire.handshake import decode_handshake
from gpuloom.wire.objects import Node, Pod

_RETRY_S = 0.5
_log = structlog.get_logger(__name__)


class VendorNode:
    """One node, from ``create`` on; ``run`` answers for its plugins and its kubelet until cancelled.

    Plugins answer handshakes, say that an allocation succeeded and open the node lock again; the kubelet says that pods
    run.
    """

    def __init__(self, name: str, machine: VendorMachine, client: KubeClient, catalog: Catalog) -> None:
        self._name = name
        self._machine = machine
        self._client = client
        self._catalog = catalog

    async def create(self, labels: Mapping[str, str]) -> None:
        """Create the node with all that it says about its cards.

        Raises ApiError.
        """
        body = describe_node(self._name, {**self._machine.labels, **labels})
        body["metadata"]["annotations"] = dict(self._machine.annotations)
        await self._client.create(NODES, body)
        capacity = self._machine.capacity
        await self._client.patch(NODES, self._name, report_node(capacity, capacity, now()), subresource="status")

    async def run(self) -> None:
        """Answer until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._answer(NODES, f"metadata.name={self._name}", self._greet))
            group.create_task(self._answer(PODS, f"spec.nodeName={self._name}", self._serve))

    async def _answer(self, resource: Resource[T], selector: str, answer: Callable[[T], Awaitable[None]]) -> None:
        async with aclosing(_changes(self._client, resource, selector)) as changes:
            async for changed in changes:
                await self._patiently(changed, answer)

    async def _patiently(self, changed: T, answer: Callable[[T], Awaitable[None]]) -> None:
        while True:
            try:
                return await answer(changed)
            except NotFoundError:
                return None
            except ApiError as error:
                _log.warning("not answered", node=self._name, error=str(error), retry_s=_RETRY_S)
                await asyncio.sleep(_RETRY_S)

    async def _greet(self, node: Node) -> None:
        asked = {key: text for key in self._machine.handshakes if (text := node.annotations.get(key))}
        open_questions = [key for key, text in asked.items() if decode_handshake(text, UTC).requesting]
        if open_questions:
            annotations = {key: f"Reported_{now()}" for key in open_questions}
            await self._client.patch(NODES, self._name, {"metadata": {"annotations": annotations}})

    async def _serve(self, pod: Pod) -> None:
        if pod.is_terminating:
            await self._client.delete(PODS, pod.name, namespace=pod.namespace, grace_period_s=0)
        elif not pod.is_over and pod.status.phase != "Running":
            if pod.annotations.get(keys.BIND_PHASE) == keys.PHASE_ALLOCATING:
                await self._allocate(pod)
            body = report_running(pod, now())
            await self._client.patch(PODS, pod.name, body, namespace=pod.namespace, subresource="status")

    async def _allocate(self, pod: Pod) -> None:
        done = {"metadata": {"annotations": {keys.BIND_PHASE: keys.PHASE_SUCCESS}}}
        await self._client.patch(PODS, pod.name, done, namespace=pod.namespace)
        locks = {profile.lock.key for profile in self._catalog.concerned(pod.all_containers) if profile.lock.key}
        if locks:
            opened = {"metadata": {"annotations": dict.fromkeys(locks)}}
            await self._client.patch(NODES, self._name, opened)


async def _changes(client: KubeClient, resource: Resource[T], selector: str) -> AsyncGenerator[T, None]:
    async with aclosing(Reflector(client, resource, field_selector=selector).events()) as events:
        async for event in events:
            if isinstance(event, InitialObject | Applied):
                yield event.object
