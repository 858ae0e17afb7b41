"""Whom preemption would evict, told by a scheduler whose cards are held by pods of several priorities."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from local.asking.conftest import Stage, settle

from gpuloom.kube import DISRUPTION_BUDGETS, HOST_PODS, PODS
from gpuloom.local.apiserver.faults import InjectedFault
from gpuloom.local.cluster import LocalCluster
from gpuloom.local.description import ClusterDescription, NodeDescription
from gpuloom.local.manifests import pod_manifest
from gpuloom.local.waiting import wait_until
from gpuloom.node.simulated import load_machine

pytestmark = pytest.mark.asyncio(loop_scope="module")

WAITING = {
    "urgent": (10, 12_000, None),
    "never": (10, 12_000, "Never"),
    "meek": (0, 12_000, None),
    "giant": (10, 90_000, None),
}


def manifest(name: str, priority: int, memory_mib: int, policy: str | None = None, **facts: Any) -> dict[str, Any]:
    made = pod_manifest(name, memory_mib=memory_mib, **facts)
    made["metadata"]["labels"] = {"app": name}
    made["spec"] |= {"priority": priority, **({"preemptionPolicy": policy} if policy else {})}
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    nodes = (NodeDescription("node-a", load_machine("two-t4")), NodeDescription("node-b", load_machine("two-t4")))
    with tempfile.TemporaryDirectory(prefix="gpuloom-") as directory:
        async with LocalCluster(ClusterDescription(nodes), Path(directory)) as cluster:
            await cluster.wait_until_registered()
            held = {"a-1": 1, "a-2": 2, "b-3": 3, "b-9": 20}
            for name, priority in held.items():
                where = {"kubernetes.io/hostname": f"node-{name[0]}"}
                await cluster.submit(manifest(name, priority, 12_000, node_selector=where))
            await settle(cluster, *held)
            for name, (priority, memory_mib, policy) in WAITING.items():
                await cluster.submit(manifest(name, priority, memory_mib, policy))
            plain = pod_manifest("plain", cards=0)
            plain["spec"]["nodeSelector"] = {"no": "where"}
            await cluster.submit(plain)
            await refused(cluster, *WAITING)
            yield Stage(cluster)


async def refused(cluster: LocalCluster, *names: str) -> None:
    """Wait until kube-scheduler has said that these wait."""

    def wait(found: Any) -> bool:
        pods = [found.get(("default", name)) for name in names]
        return all(one is not None and one.status.conditions for one in pods)

    await wait_until(cluster.client, HOST_PODS, wait, timeout_s=60)


async def test_the_pod_of_the_lowest_priority_would_go(stage: Stage) -> None:
    said = await stage.gpuloom("preempt", "urgent", "--dry-run")
    assert (said.code, said.err) == (0, ""), said
    first, victim, share = said.out.splitlines()
    assert first == "pod default/urgent (priority 10): would have room on node-a if this pod were evicted"
    assert victim.startswith("  default/a-1: priority 1, since ")
    assert share.endswith(": 12,000 MiB, no limit of cores")
    assert await alive(stage) == {"a-1", "a-2", "b-3", "b-9", "plain", *WAITING}


async def alive(stage: Stage) -> set[str]:
    pods, _ = await stage.cluster.client.list_all(PODS, namespace="default")
    return {pod.name for pod in pods if not pod.is_terminating}


async def test_programs_get_the_same(stage: Stage) -> None:
    view = (await stage.gpuloom("preempt", "pod/urgent", "--dry-run", "-o", "json")).json()
    (victim,) = view["victims"]
    assert (view["node"], view["priority"]) == ("node-a", 10)
    assert (victim["pod"], victim["priority"]) == ({"namespace": "default", "name": "a-1"}, 1)
    assert [share["memoryMib"] for share in victim["held"]] == [12_000]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("never", "its preemptionPolicy is Never"),
        ("meek", "nobody who holds such cards has a lower priority than its own, 0"),
        ("giant", "no node's cards would do for it even if nobody were on them"),
        ("a-1", "it has its node already, node-a"),
        ("plain", "it asks for no card: kube-scheduler places it alone"),
    ],
)
async def test_one_line_says_why_nobody_would_go(stage: Stage, name: str, line: str) -> None:
    said = await stage.gpuloom("preempt", name, "--dry-run")
    assert (said.code, said.err) == (1, "")
    assert said.out.endswith(f": nobody would be evicted: {line}\n")
    assert said.out.count("\n") == 1


async def test_a_pod_that_has_its_node_is_told_with_its_priority(stage: Stage) -> None:
    said = await stage.gpuloom("preempt", "b-9", "--dry-run")
    assert said.out.startswith("pod default/b-9 (priority 20): ")


async def test_a_pod_that_is_not_there_is_one_line(stage: Stage) -> None:
    said = await stage.gpuloom("preempt", "nobody", "--dry-run")
    assert (said.code, said.out) == (1, "")
    assert said.err == "gpuloom: there is no pod default/nobody: see gpuloom pending -A and gpuloom pods -A\n"


async def test_without_dry_run_nothing_is_asked(stage: Stage) -> None:
    said = await stage.gpuloom("preempt", "urgent")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("gpuloom: evicting for a pod is the scheduler's to do: give --dry-run")


async def test_those_that_a_budget_protects_go_last_and_it_is_said_when_they_must(stage: Stage) -> None:
    for names in (["a-1"], ["a-1", "a-2", "b-3"]):
        expressions = [{"key": "app", "operator": "In", "values": names}]
        spec = {"maxUnavailable": 0, "selector": {"matchExpressions": expressions}}
        body = {"metadata": {"name": "keep", "namespace": "default"}, "spec": spec}
        await stage.cluster.client.create(DISRUPTION_BUDGETS, body, namespace="default")
        try:
            said = await stage.gpuloom("preempt", "urgent", "--dry-run")
        finally:
            await stage.cluster.client.delete(DISRUPTION_BUDGETS, "keep", namespace="default")
        if len(names) == 1:
            assert "\n  default/a-2: priority 2, since " in said.out
            assert "keep" not in said.out
        else:
            assert "evicted, 1 of them against a PodDisruptionBudget\n  default/a-1: priority 1" in said.out
            assert ", protected by default/keep\n" in said.out


async def test_budgets_that_may_not_be_read_are_said_not_to_be_looked_at(stage: Stage) -> None:
    stage.cluster.server.faults.add(InjectedFault(method="GET", path="/poddisruptionbudgets", status=403))
    said = await stage.gpuloom("preempt", "urgent", "--dry-run")
    assert said.code == 0
    assert "\n  not looked at: PodDisruptionBudgets: list PodDisruptionBudget in namespace default: " in said.out


async def test_a_snapshot_tells_the_same_but_for_budgets(stage: Stage) -> None:
    snapshot = await stage.gpuloom("snapshot")
    said = await stage.gpuloom("preempt", "urgent", "--dry-run", "--from", "-", stdin=snapshot.out)
    served = await stage.gpuloom("preempt", "urgent", "--dry-run")
    assert said.out.splitlines()[0] == served.out.splitlines()[0]
    assert "  not looked at: PodDisruptionBudgets: a snapshot or recording tells none" in said.out


async def test_explain_names_who_would_have_to_leave_and_why_they_stay(stage: Stage) -> None:
    leaves = "  note: would fit on node-a if these leave: default/a-1 (priority 1); not evicted because "
    assert (
        f"{leaves}preemption is switched off (--preemption)\n" in (await stage.gpuloom("explain", "urgent", "-v")).out
    )
    assert f"{leaves}its preemptionPolicy is Never\n" in (await stage.gpuloom("explain", "never", "-v")).out
    assert "note: would fit" not in (await stage.gpuloom("explain", "meek", "-v")).out
