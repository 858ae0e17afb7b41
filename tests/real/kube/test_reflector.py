"""The reflector against a real API server that goes away, forgets and comes back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from gpuloom.kube import (
    NODES,
    Applied,
    Deleted,
    InitialListBegins,
    InitialListComplete,
    InitialObject,
    KubeClient,
    Reflector,
    load_kubeconfig,
)
from gpuloom.kube.reflector import ReflectorTiming
from gpuloom.wire.objects import Node
from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

IMPATIENT = ReflectorTiming(uniform=lambda low, _high: max(low, 0.2))


class Follower:
    """A consumer as it should be: `names` are the nodes that it believes in."""

    def __init__(self, reflector: Reflector[Node]) -> None:
        self.names: set[str] = set()
        self.lists = 0
        self._reflector = reflector
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        listed: set[str] = set()
        async with aclosing(self._reflector.events()) as events:
            async for event in events:
                match event:
                    case InitialListBegins():
                        listed = set()
                    case InitialObject(object=node):
                        listed.add(node.name)
                    case InitialListComplete():
                        self.names, self.lists = listed, self.lists + 1
                    case Applied(object=node):
                        self.names.add(node.name)
                    case Deleted(object=node):
                        self.names.discard(node.name)
                self._changed.set()

    async def wait_for(self, *names: str) -> None:
        async with asyncio.timeout(60):
            while self.names != set(names):
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def follow(control_plane: ControlPlane, *, page_size: int = 500) -> AsyncIterator[tuple[Follower, KubeClient]]:
    async with KubeClient(load_kubeconfig(control_plane.kubeconfig)) as client:
        follower = Follower(Reflector(client, NODES, page_size=page_size, timing=IMPATIENT))
        task = asyncio.create_task(follower.follow())
        try:
            yield follower, client
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def create(client: KubeClient, *names: str) -> None:
    for name in names:
        await client.create(NODES, {"metadata": {"name": name}})


async def test_a_restart_of_the_api_server_is_survived(own_control_plane: ControlPlane) -> None:
    async with follow(own_control_plane) as (follower, client):
        await create(client, "a")
        await follower.wait_for("a")
        await asyncio.to_thread(own_control_plane.restart_apiserver)
        await create(client, "b")
        await follower.wait_for("a", "b")


async def test_a_node_removed_while_the_api_server_was_away_is_gone(own_control_plane: ControlPlane) -> None:
    async with follow(own_control_plane) as (follower, client):
        await create(client, "a", "b")
        await follower.wait_for("a", "b")
        await asyncio.to_thread(own_control_plane.stop_apiserver)
        await asyncio.to_thread(own_control_plane.remove_from_etcd, "minions/b")
        await asyncio.to_thread(own_control_plane.compact_etcd)
        await asyncio.to_thread(own_control_plane.start_apiserver)
        await follower.wait_for("a")
        assert follower.lists == 2


async def test_etcd_that_is_compacted_disturbs_no_watch(own_control_plane: ControlPlane) -> None:
    async with follow(own_control_plane) as (follower, client):
        await create(client, "a")
        await follower.wait_for("a")
        await asyncio.to_thread(own_control_plane.compact_etcd)
        await create(client, "b")
        await follower.wait_for("a", "b")
        assert follower.lists == 1


async def test_a_list_whose_pages_are_compacted_away_comes_out_complete(own_control_plane: ControlPlane) -> None:
    async with KubeClient(load_kubeconfig(own_control_plane.kubeconfig)) as client:
        await create(client, "a", "b", "c")
        reflector = Reflector(client, NODES, page_size=1, timing=IMPATIENT)
        listed: list[str] = []
        async with asyncio.timeout(60), aclosing(reflector.events()) as events:
            async for event in events:
                if isinstance(event, InitialListBegins):
                    listed = []
                elif isinstance(event, InitialListComplete):
                    break
                elif isinstance(event, InitialObject):
                    listed.append(event.object.name)
                    if reflector.relists == 0 and len(listed) == 1:
                        await create(client, "d")
                        await asyncio.to_thread(own_control_plane.restart_apiserver)
                        await asyncio.to_thread(own_control_plane.compact_etcd)
        assert listed in (["a", "b", "c"], ["a", "b", "c", "d"])
