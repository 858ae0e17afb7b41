"""Two schedulers that both take themselves for the leader, over one real node without locks (binding 9, decision 032).

Each is asked as its own kube-scheduler asks. The second hears late of what the first has done, as after a pause.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from harness.cluster import Cluster
from harness.faultyproxy import Faults, FaultyProxy
from harness.gpuloom import start_scheduler
from harness.objects import PODS

from .conftest import Site, create_plugin_pod
from .test_foreign import held_up
from .test_scenarios import annotation, memory_limit, wait_until_running

pytestmark = [pytest.mark.control_plane, pytest.mark.real_node, pytest.mark.timeout(600)]

ONE_CARD = '[[cards]]\nmodel = "Tesla M60"\nmemory_mib = 8192\n'
LATE_S = 20.0
LOCK = "hami.io/mutex.lock"
SERVES = "gpuloom.io/serves"


class Leader:
    """A scheduler that takes itself for the leader."""

    def __init__(self, site: Site, url: str, session: aiohttp.ClientSession):
        self._site = site
        self._url = url
        self._session = session

    async def choose(self, name: str) -> list[str]:
        """Ask for a node for a pod; the nodes that are left."""
        pod = await asyncio.to_thread(self._site.api.get, f"{PODS}/{name}")
        reply = await self._call("filter", {"Pod": pod, "Nodes": None, "NodeNames": [self._site.node.name]})
        return reply["NodeNames"] or []

    async def bind(self, name: str) -> str:
        """Ask for a pod to be bound; the error of the reply."""
        uid = (await asyncio.to_thread(self._site.api.get, f"{PODS}/{name}"))["metadata"]["uid"]
        args = {"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": self._site.node.name}
        return str((await self._call("bind", args))["Error"])

    async def _call(self, verb: str, body: Any) -> Any:
        async with self._session.post(f"{self._url}/{verb}", json=body, ssl=False) as reply:
            return await reply.json()


@pytest.fixture(scope="module")
def site(real_node_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One card of 8 GiB; the tests play kube-scheduler."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        flags = [f"--pod-uid={create_plugin_pod(cluster)}"]
        directory = tmp_path_factory.mktemp("gpuloom")
        with Site(cluster, directory, cards=ONE_CARD, devices=10, flags=flags) as site:
            node = f"/api/v1/nodes/{site.node.name}"
            site.api.wait_for(node, lambda node: SERVES in node["metadata"]["annotations"])
            cluster.control_plane.stop_scheduler()
            yield site


@pytest.fixture
async def proxy(site: Site) -> AsyncIterator[FaultyProxy]:
    """The second leader's way to the API server."""
    plane = site.control_plane
    async with FaultyProxy(plane.url, plane.ca_file, plane.admin_token) as proxy:
        yield proxy


@pytest.fixture
async def leaders(site: Site, proxy: FaultyProxy, tmp_path: Path) -> AsyncIterator[tuple[Leader, Leader]]:
    """Two that lead; the second is behind the proxy."""
    proxy.write_kubeconfig(tmp_path / "kubeconfig")
    processes = ExitStack()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, processes.close)
        url = await asyncio.to_thread(
            lambda: start_scheduler(
                processes, site.control_plane, tmp_path, trustme.CA(), kubeconfig=tmp_path / "kubeconfig"
            )
        )
        session = await stack.enter_async_context(aiohttp.ClientSession())
        yield Leader(site, site.url, session), Leader(site, url, session)


async def wait_for(site: Site, name: str, condition: Callable[[Any], bool]) -> Any:
    """Wait for a pod while the proxy goes on."""
    return await asyncio.to_thread(site.api.wait_for, f"{PODS}/{name}", condition)


async def wait_over_or_running(site: Site, name: str) -> Any:
    """Wait for the kubelet's answer; the pod's status."""
    return (await wait_for(site, name, lambda pod: pod["status"]["phase"] != "Pending"))["status"]


async def test_of_two_bound_to_one_share_before_the_kubelet_asks_one_gets_it_and_the_other_nothing(
    site, start, leaders, proxy
):
    for leader, name, size in zip(leaders, ("mine", "yours"), (6000, 5000), strict=True):
        start(name, [size])
        assert await leader.choose(name) == [site.node.name]
    proxy.faults = Faults(watch_lag_s=LATE_S)
    with held_up(site):
        errors = [await leader.bind(name) for leader, name in zip(leaders, ("mine", "yours"), strict=True)]
    assert errors == ["", ""]
    phases = {name: (await wait_over_or_running(site, name))["phase"] for name in ("mine", "yours")}
    assert sorted(phases.values()) == ["Failed", "Running"]
    (served,) = (name for name, phase in phases.items() if phase == "Running")
    assert memory_limit(site, served) == {"mine": 6000, "yours": 5000}[served]
    assert {annotation(site, name, "bind-phase") for name in phases if name != served} == {"failed"}


async def test_a_leader_that_wakes_late_takes_no_card_that_was_given_away_meanwhile(site, start, leaders, proxy):
    awake, late = leaders
    start("decided-before", [5000])
    assert await late.choose("decided-before") == [site.node.name]
    proxy.faults = Faults(watch_lag_s=LATE_S)
    start("meanwhile", [6000])
    assert await awake.choose("meanwhile") == [site.node.name]
    assert await awake.bind("meanwhile") == ""
    await wait_for(site, "meanwhile", lambda pod: pod["metadata"]["annotations"]["hami.io/bind-phase"] == "success")
    assert await late.bind("decided-before") == ""
    refused = await wait_over_or_running(site, "decided-before")
    assert refused["phase"] == "Failed", refused
    assert "11000 of 8192 MiB, beside default/meanwhile" in refused["message"]
    await asyncio.to_thread(wait_until_running, site, "meanwhile")
    assert memory_limit(site, "meanwhile") == 6000


async def test_pods_that_both_bind_at_once_are_served_with_their_own_shares(site, start, leaders, proxy):
    proxy.faults = Faults(watch_lag_s=0.5)
    sizes = {f"both-{number}": 1000 + number for number in range(6)}
    for name, size in sizes.items():
        start(name, [size])

    async def place(leader: Leader, *names: str) -> None:
        for name in names:
            assert await leader.choose(name) == [site.node.name]
            assert await leader.bind(name) == ""

    names = [*sizes]
    await asyncio.gather(place(leaders[0], *names[::2]), place(leaders[1], *names[1::2]))
    await asyncio.to_thread(wait_until_running, site, *names)
    assert {name: memory_limit(site, name) for name in names} == sizes
    assert LOCK not in site.api.get(f"/api/v1/nodes/{site.node.name}")["metadata"]["annotations"]
