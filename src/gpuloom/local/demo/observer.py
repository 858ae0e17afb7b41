"""Three watches of the demo that keep the latest nodes, pods and events, and tell when something changed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from gpuloom.kube.client import KubeClient
from gpuloom.kube.reflector import Applied, Deleted, InitialListBegins, InitialListComplete, InitialObject, Reflector
from gpuloom.kube.resources import NODES, PODS, Resource, T
from gpuloom.local.demo.picture import TIMED_EVENTS, ClusterPicture, TimedEvent, draw_picture
from gpuloom.vendors.catalog import Catalog
from gpuloom.wire.objects import Node, Pod


class Observer:
    """Sees the cluster through its API; ``changed`` is set with every change, whoever waits for it clears it."""

    def __init__(self, client: KubeClient, catalog: Catalog) -> None:
        self.changed = asyncio.Event()
        self._client = client
        self._catalog = catalog
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        self._events: dict[str, TimedEvent] = {}

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch inside the block."""
        async with asyncio.TaskGroup() as group:
            watches = [
                group.create_task(self._follow(NODES, self._nodes)),
                group.create_task(self._follow(PODS, self._pods)),
                group.create_task(self._follow(TIMED_EVENTS, self._events)),
            ]
            try:
                yield
            finally:
                for watch in watches:
                    watch.cancel()

    def look(self) -> ClusterPicture:
        """Draw what is known now."""
        return draw_picture(
            self._nodes.values(), tuple(self._pods.values()), tuple(self._events.values()), self._catalog
        )

    async def _follow(self, resource: Resource[T], known: dict[str, T]) -> None:
        listed: dict[str, T] = {}
        async with aclosing(Reflector(self._client, resource).events()) as events:
            async for event in events:
                match event:
                    case InitialListBegins():
                        listed = {}
                    case InitialObject(found):
                        listed[found.metadata.uid] = found
                    case InitialListComplete():
                        known.clear()
                        known.update(listed)
                        self.changed.set()
                    case Applied(found):
                        known[found.metadata.uid] = found
                        self.changed.set()
                    case Deleted(found):
                        known.pop(found.metadata.uid, None)
                        self.changed.set()
