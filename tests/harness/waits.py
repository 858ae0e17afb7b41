"""How long pods wait on a real control plane: many at once for one node, and one for a card that becomes free.

And how often one that waits for a card that does not become free is tried.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gpuloom.kube import PODS, KubeClient, load_kubeconfig
from harness.accounts import Accounts
from harness.faultyproxy import Faults
from harness.fleet import Fleet
from harness.installation import MAX_BACKOFF_S
from harness.objects import create_priority_class, create_ready_node
from harness.playedplugins import PlayedPlugins

PLAIN_NODES = 3
FILTER_CALLS = 'gpuloom_request_duration_seconds_count{verb="filter"}'


@asynccontextmanager
async def open_fleet(
    directory: Path, *, cards: int, allocate_s: float, through_proxy: bool = True
) -> AsyncIterator[tuple[Fleet, Accounts]]:
    """Run a fleet with one node that has cards and some without, everything started.

    Through the proxy gpuloom's watches can lag, and everything that it asks takes a little longer.
    """
    async with Fleet(directory, cards=cards) as fleet:
        await fleet.add_nodes(1)
        for number in range(PLAIN_NODES):
            await asyncio.to_thread(create_ready_node, fleet.control_plane.api, f"plain-{number}")
        await fleet.start_gpuloom(through_proxy=through_proxy)
        await fleet.start_kube_scheduler()
        async with (
            KubeClient(load_kubeconfig(fleet.control_plane.kubeconfig)) as client,
            Accounts(fleet.client) as accounts,
            PlayedPlugins(client, allocate_s=allocate_s),
        ):
            yield fleet, accounts


async def bind_at_once(fleet: Fleet, accounts: Accounts, count: int) -> float:
    """Create so many pods at once; seconds from the first creation until the last is bound."""
    clock = asyncio.get_running_loop().time
    began_s = clock()
    await fleet.add_pods({f"one-of-many-{number}": 900 for number in range(count)})
    await accounts.wait_for(lambda: len(accounts.bound_s) == count, timeout_s=100)
    return max(accounts.bound_s.values()) - began_s


async def free_a_card(fleet: Fleet, accounts: Accounts, *, lag_s: float, number: int = 0) -> float:
    """Fill the only card, let a pod wait beyond kube-scheduler's backoff, delete the other; seconds until it is bound.

    `lag_s`: so much later than it happens, gpuloom's watches tell it.
    """
    fleet.proxy.faults = Faults(watch_lag_s=lag_s)
    (blocking,) = await fleet.add_pods({f"blocking-{number}": 9000})
    await accounts.wait_for(lambda: blocking.metadata.uid in accounts.bound_s and not accounts.busy)
    (waiting,) = await fleet.add_pods({f"waiting-{number}": 9000})
    uid = waiting.metadata.uid
    await accounts.wait_for(lambda: uid in accounts.pods and bool(accounts.pods[uid].reason))
    await asyncio.sleep(MAX_BACKOFF_S + 1)
    began_s = asyncio.get_running_loop().time()
    await fleet.client.delete(PODS, blocking.name, namespace="default", grace_period_s=0)
    await accounts.wait_for(lambda: uid in accounts.bound_s, timeout_s=30)
    took_s = accounts.bound_s[uid] - began_s
    await fleet.client.delete(PODS, waiting.name, namespace="default", grace_period_s=0)
    await accounts.wait_for(lambda: not accounts.pods and not accounts.locks)
    return took_s


async def count_tries(directory: Path, refused_nodes: str, *, nodes: int, for_s: float) -> int:
    """Fill nodes with unimportant pods, and count the Filter calls for an important one that waits, for so long."""
    async with Fleet(directory, cards=1) as fleet:
        for name, value in (("low", 10), ("high", 1000)):
            await asyncio.to_thread(create_priority_class, fleet.control_plane.api, name, value)
        await fleet.add_nodes(nodes)
        await fleet.start_gpuloom(f"--refused-nodes={refused_nodes}", through_proxy=False)
        await fleet.start_kube_scheduler()
        async with Accounts(fleet.client) as accounts, PlayedPlugins(fleet.client):
            filling = {f"low-{number}": 9000 for number in range(nodes)}
            await fleet.add_pods(filling, priorityClassName="low")
            await accounts.wait_for(lambda: len(accounts.bound_s) == nodes and not accounts.busy, timeout_s=100)
            (high,) = await fleet.add_pods({"high": 9000}, priorityClassName="high")
            uid = high.metadata.uid
            await accounts.wait_for(lambda: uid in accounts.pods and bool(accounts.pods[uid].reason))
            before = await _count_filter_calls(fleet)
            await asyncio.sleep(for_s)
            return await _count_filter_calls(fleet) - before


async def _count_filter_calls(fleet: Fleet) -> int:
    lines = (await fleet.read_metrics()).splitlines()
    (line,) = (one for one in lines if one.startswith(f"{FILTER_CALLS} "))
    return int(float(line.split()[-1]))
