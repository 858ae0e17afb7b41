"""Nodes with gpuloom's plugin and nodes with HAMi's under one scheduler, on a real control plane (binding 9)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from gpuloom.kube import NODES, PODS, Applied, KubeClient, Reflector, load_kubeconfig
from harness.accounts import Accounts
from harness.fleet import Fleet
from harness.playedplugins import LOCK, PHASE, PlayedPlugins

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

PODS_IN_ALL = 30
SERVES = "gpuloom.io/serves"


class Changes:
    """What is written on nodes and pods from now on, as a watch shows it; at most one pod of a node waits at a time."""

    def __init__(self, client: KubeClient):
        """Prepare to watch."""
        self.locked: Counter[str] = Counter()
        self.versions: Counter[str] = Counter()
        self.crowds: list[set[str]] = []
        self._client = client
        self._waiting: dict[str, set[str]] = {}
        self._locks: dict[str, str] = {}

    async def follow_nodes(self) -> None:
        """Count how often each node is locked."""
        async with aclosing(Reflector(self._client, NODES).events()) as events:
            async for event in events:
                if isinstance(event, Applied):
                    node, lock = event.object, event.object.annotations.get(LOCK, "")
                    self.locked[node.name] += bool(lock) and lock != self._locks.get(node.name)
                    self._locks[node.name] = lock

    async def follow_pods(self) -> None:
        """Count the versions of bound pods, and note where two wait for a plugin at the same time."""
        async with aclosing(Reflector(self._client, PODS).events()) as events:
            async for event in events:
                if isinstance(event, Applied) and event.object.spec.node_name:
                    pod = event.object
                    self.versions[pod.name] += 1
                    waiting = self._waiting.setdefault(pod.spec.node_name, set())
                    (waiting.add if pod.annotations.get(PHASE) == "allocating" else waiting.discard)(pod.name)
                    if len(waiting) > 1:
                        self.crowds.append(set(waiting))


@pytest.fixture
async def fleet(control_plane_binaries: None, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Two nodes: gpuloom's plugin runs on the first, HAMi's on the second."""
    async with Fleet(tmp_path) as fleet:
        await fleet.add_nodes(2)
        await fleet.client.patch(NODES, "node-1", {"metadata": {"annotations": {SERVES: None}}})
        yield fleet


async def bind_all(fleet: Fleet, *flags: str) -> tuple[Accounts, Changes]:
    """Bind many pods to the two nodes, and return what was seen."""
    async with (
        KubeClient(load_kubeconfig(fleet.control_plane.kubeconfig)) as client,
        Accounts(fleet.client) as accounts,
    ):
        changes = Changes(client)
        following = [asyncio.create_task(follow()) for follow in (changes.follow_nodes, changes.follow_pods)]
        await fleet.start_gpuloom("--node-scheduler-policy=spread", "--no-pod-label", *flags)
        await fleet.start_kube_scheduler()
        async with PlayedPlugins(client, allocate_s=0.02, reads_locks=True) as plugins:
            await fleet.add_pods({f"pod-{number}": 1000 for number in range(PODS_IN_ALL)})
            await plugins.wait_served(PODS_IN_ALL)
            await accounts.wait_for(lambda: not accounts.busy)
        for one in following:
            one.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        return accounts, changes


async def test_only_nodes_with_hamis_plugin_are_locked_and_never_do_two_pods_wait_on_one(fleet: Fleet) -> None:
    accounts, changes = await bind_all(fleet)
    on = Counter(pod.spec.node_name for pod in accounts.pods.values())
    assert on.total() == PODS_IN_ALL
    assert on["node-0"] > 0
    assert changes.locked["node-0"] == 0
    assert changes.locked["node-1"] == on["node-1"] > 0
    assert changes.crowds == []
    assert accounts.violations == []


async def test_a_pod_on_a_node_without_lock_is_written_twice_and_its_node_never(fleet: Fleet) -> None:
    """The Binding and the plugin's patch. Nothing else writes here: no kubelet, no label."""
    accounts, changes = await bind_all(fleet)
    written = {changes.versions[pod.name] for pod in accounts.pods.values() if pod.spec.node_name == "node-0"}
    assert written == {2}
    assert changes.locked["node-0"] == 0


async def test_with_always_every_node_is_locked_for_every_pod(fleet: Fleet) -> None:
    accounts, changes = await bind_all(fleet, "--node-lock=always")
    assert changes.locked == Counter(pod.spec.node_name for pod in accounts.pods.values())
    assert changes.crowds == []
    assert accounts.violations == []
