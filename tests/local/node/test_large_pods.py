"""A node whose pods do not all fit into memory: tenants choose how large they are, and ended ones stay bound."""

import asyncio
import tracemalloc

import pytest
from local.node.conftest import wait_until
from local.node.unlocked import ID, Scene

from gpuloom.kube.resources import NODES, PODS
from gpuloom.node.nodewatch import watch_node

COUNT, SIZE = 200, 100_000


@pytest.fixture
async def scene(local_client, settings):
    await local_client.create(NODES, {"metadata": {"name": "n1"}})
    container = {"name": "c", "image": "i", "args": ["x" * SIZE]}
    for number in range(COUNT):
        body = {"metadata": {"name": f"large-{number}"}, "spec": {"nodeName": "n1", "containers": [container]}}
        await local_client.create(PODS, body, namespace="default")
    # The server keeps what it has written once, so that only the reader's part is measured.
    await local_client.list_all(PODS)
    return Scene(local_client, settings)


async def measure_most(work):
    """Return how many bytes were in use at most."""
    tracemalloc.start()
    try:
        await work
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def test_to_follow_large_pods_takes_less_memory_than_they_do(scene):
    pods = watch_node(scene.client, scene.settings).pods

    async def follow():
        task = asyncio.create_task(pods.run())
        await wait_until(are_listed)
        task.cancel()
        await asyncio.wait([task])

    async def are_listed():
        return pods.is_listed

    assert await measure_most(follow()) < COUNT * SIZE
    assert len(pods.all) == COUNT


async def test_a_call_that_asks_the_api_server_beside_large_pods_takes_less_memory_than_they_do(scene):
    await scene.add_pod()
    assert await measure_most(scene.allocator.allocate([ID])) < COUNT * SIZE
    assert await scene.says() == ("success", ";")
