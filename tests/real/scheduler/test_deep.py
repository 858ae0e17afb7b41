"""A pod that anybody may create, with fields that nobody reads nested as deep as the API server takes (trust T-05)."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import aiohttp
import pytest
from local.scheduler.clock import ManualClock, poll
from local.scheduler.site import VGPU_NODE, Site

from gpuloom.kube import PODS, KubeClient, load_kubeconfig
from gpuloom.local.manifests import pod_manifest
from gpuloom.scheduler.clocks import Clocks
from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

LEVELS = 9_000
PATH = "/api/v1/namespaces/default/pods"


class RealTime(ManualClock):
    """The machine's clocks, where a test needs none of its own."""

    @property
    def clocks(self) -> Clocks:
        return Clocks()


def deep_manifest(name: str, levels: int = LEVELS) -> bytes:
    """An ordinary pod that asks for a share, but for what its creator says about who manages which of its fields."""
    manifest = pod_manifest(name, memory_mib=3000)
    manifest["spec"]["schedulerName"] = "hami-scheduler"
    mark = '{"f:metadata":{"f:labels":{"f:app":%s}}}' % ('{"f:x":' * levels + "{}" + "}" * levels)
    entry = {
        "manager": "anybody",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-11-23T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": "MARK",
    }
    manifest["metadata"] |= {"labels": {"app": "x"}, "managedFields": [entry]}
    return json.dumps(manifest | {"apiVersion": "v1", "kind": "Pod"}).replace('"MARK"', mark).encode()


async def create_deep(client: KubeClient, name: str) -> bytes:
    """Create such a pod, and return it as it is stored."""
    await client.call(
        "POST", PATH, f"Pod {name}", body=deep_manifest(name), headers={"Content-Type": "application/json"}
    )
    stored = await client.call("GET", f"{PATH}/{name}", f"Pod {name}")
    assert stored.count(b'{"f:x":') >= LEVELS
    return stored


@pytest.fixture
async def site(own_control_plane: ControlPlane) -> AsyncIterator[Site]:
    """A scheduler over a real API server, and one node with one card of 10,000 MiB."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(KubeClient(load_kubeconfig(own_control_plane.kubeconfig)))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        site = Site(None, client, RealTime(), session)
        stack.push_async_callback(site.stack.aclose)
        await site.start()
        await site.process.wait_synced()
        await site.register("n1")
        yield site


async def filter_stored(site: Site, stored: bytes) -> str:
    """Ask as kube-scheduler does, which sends the pod as it is stored; return the node."""
    body = b'{"Pod":%s,"Nodes":null,"NodeNames":["n1"]}' % stored
    headers = {"Content-Type": "application/json"}
    async with site.session.post(f"{site.process.url}/filter", data=body, headers=headers) as reply:
        (node,) = (await reply.json())["NodeNames"]
    return str(node)


async def test_a_deep_pod_is_scheduled_and_counted_and_stops_nobody(site: Site) -> None:
    stored = await create_deep(site.client, "deep")
    deep = await site.client.get(PODS, "deep", namespace="default")
    await poll(lambda: deep.metadata.uid in site.process.state.shown.pods)

    other = await site.submit("other")
    assert await site.choose(other) == "n1"
    assert await site.bind(other) == ""
    await site.wait_bound(other)
    await site.unlock()

    assert await filter_stored(site, stored) == "n1"
    assert await site.bind(deep) == ""
    await site.wait_bound(deep)
    bound = await site.client.get(PODS, "deep", namespace="default")
    assert (bound.spec.node_name, bound.annotations[VGPU_NODE]) == ("n1", "n1")

    await site.restart()
    assert await site.free_mib("n1") == 4000
    assert site.process.parts.informers.reflectors["pods"].bad_objects == 0
    await site.remove(deep)
    assert await site.free_mib("n1") == 7000
