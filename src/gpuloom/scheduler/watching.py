"""The watches: reflector events become calls of the books, and readiness."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TypeVar

from gpuloom.kube import (
    NODES,
    PODS,
    Applied,
    Deleted,
    InitialListBegins,
    InitialListComplete,
    InitialObject,
    KubeClient,
    Reflector,
    Resource,
)
from gpuloom.scheduler.locks import NodeLocks
from gpuloom.scheduler.nodes import NodeBook
from gpuloom.scheduler.pods import PodBook
from gpuloom.wire.objects import KubeObject, Node

_O = TypeVar("_O", bound=KubeObject)


class Watches:
    """Keeps pods and nodes as the API server shows them; sets ``synced`` when both first lists are complete."""

    def __init__(
        self, client: KubeClient, pods: PodBook, nodes: NodeBook, locks: NodeLocks, *, synced: asyncio.Event
    ) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._locks = locks
        self._synced = synced
        self._complete: set[str] = set()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(PODS, self._pods.replace, self._pods.apply, self._pods.delete))
            tasks.create_task(self._follow(NODES, self._replace_nodes, self._apply_node, self._delete_node))

    async def _follow(
        self,
        resource: Resource[_O],
        replace: Callable[[list[_O]], None],
        apply: Callable[[_O], None],
        delete: Callable[[_O], None],
    ) -> None:
        listed: list[_O] = []
        async with aclosing(Reflector(self._client, resource).events()) as events:
            async for event in events:
                match event:
                    case InitialListBegins():
                        listed = []
                    case InitialObject(object=item):
                        listed.append(item)
                    case InitialListComplete():
                        replace(listed)
                        listed = []
                        self._note_complete(resource.plural)
                    case Applied(object=item):
                        apply(item)
                    case Deleted(object=item):
                        delete(item)

    def _note_complete(self, plural: str) -> None:
        self._complete.add(plural)
        if {PODS.plural, NODES.plural} <= self._complete:
            self._synced.set()

    def _replace_nodes(self, nodes: list[Node]) -> None:
        self._nodes.replace({node.name: node for node in nodes})
        for node in nodes:
            self._locks.apply_node(node)

    def _apply_node(self, node: Node) -> None:
        self._nodes.apply(node)
        self._locks.apply_node(node)

    def _delete_node(self, node: Node) -> None:
        self._nodes.delete(node.name)
        self._locks.delete_node(node.name)
