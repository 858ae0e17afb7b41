"""A card is drained: what is asked, what is told, and what is left when it ends otherwise than wished."""

import asyncio
import re
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from local.asking.conftest import HAMI_DECIDES, Stage, scheduler_of, settle, start_gpuloom
from local.asking.terminal import Terminal, open_terminal, wait_until_met

from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import InjectedFault
from gpuloom.local.cluster import LocalCluster
from gpuloom.local.description import ClusterDescription, NodeDescription
from gpuloom.local.manifests import pod_manifest
from gpuloom.node.simulated import load_machine
from gpuloom.wire.keys import DEVICES_ALLOCATED, NODE_CORDON

NAMES = ("one", "two")
CARD = "node-a/0"


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """Two pods on the first card of a node."""
    nodes = (NodeDescription("node-a", load_machine("two-t4")),)
    with tempfile.TemporaryDirectory(prefix="gpuloom-") as directory:
        async with LocalCluster(ClusterDescription(nodes), Path(directory)) as cluster:
            await cluster.wait_until_registered()
            said = await Stage(cluster).gpuloom("cordon", "node-a/1")
            assert said.code == 0
            for name in NAMES:
                await cluster.submit(pod_manifest(name, memory_mib=6000, cores=25, owner="set"))
            await settle(cluster, *NAMES)
            assert (await Stage(cluster).gpuloom("uncordon", "node-a/1")).code == 0
            yield Stage(cluster)


async def cordoned(stage: Stage) -> bool:
    return NODE_CORDON in (await stage.cluster.client.get(NODES, "node-a")).annotations


async def staying(stage: Stage) -> set[str]:
    pods, _ = await stage.cluster.client.list_all(PODS)
    return {pod.name for pod in pods if not pod.is_terminating}


@pytest.fixture
async def asked(stage: Stage) -> AsyncIterator[Terminal]:
    """A drain that waits for an answer."""
    async with open_terminal("drain-card", CARD, kubeconfig=str(stage.cluster.kubeconfig)) as terminal:
        await terminal.wait_until_asked()
        yield terminal


async def test_after_a_no_nothing_has_changed(stage: Stage, asked: Terminal) -> None:
    asked.type("n\n")
    said = await asked.end()
    assert (said.code, said.err) == (1, "gpuloom: nobody was evicted\n")
    assert (await cordoned(stage), await staying(stage)) == (False, set(NAMES))


async def test_ctrl_c_at_the_question_changes_nothing(stage: Stage, asked: Terminal) -> None:
    asked.process.send_signal(signal.SIGINT)
    said = await asked.end()
    assert (said.code, said.err) == (130, "")
    assert (await cordoned(stage), await staying(stage)) == (False, set(NAMES))


async def test_after_a_yes_the_card_is_closed_and_empty(stage: Stage, asked: Terminal) -> None:
    asked.type("y\n")
    said = await asked.end()
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith("drained\n")
    assert (await cordoned(stage), await staying(stage)) == (True, set())


async def test_a_card_that_is_drained_twice_is_told_to_be_closed_already(stage: Stage) -> None:
    first = await stage.gpuloom("drain-card", CARD, "--yes")
    again = await stage.gpuloom("drain-card", CARD, "--yes")
    card = first.out.splitlines()[-1].removesuffix(" drained")
    assert (again.code, again.err) == (0, "")
    assert again.out == f"no pod is on {card}\n{card} already cordoned\n"


async def test_a_pod_whose_binding_was_sent_before_the_card_was_closed_is_evicted_too(stage: Stage) -> None:
    for name in NAMES:
        await stage.cluster.client.delete(PODS, name, namespace="default")
    assert (await stage.gpuloom("cordon", "node-a/1")).code == 0
    sent = InjectedFault(method="POST", path="/binding$", delay_s=3)
    stage.cluster.server.faults.add(sent)
    await stage.cluster.submit(pod_manifest("late", memory_mib=6000, owner="set"))
    await wait_until_met(stage.cluster.server, sent)
    said = await stage.gpuloom("drain-card", CARD, "--yes")
    assert (said.code, said.err) == (0, "")
    assert "pod default/late evicted\n" in said.out
    assert await staying(stage) == set()


async def come_late(stage: Stage, held: str) -> None:
    """Let a pod come to a card, as one whose Binding arrives late."""
    client, manifest = stage.cluster.client, pod_manifest("late", cards=0, owner="set")
    manifest["spec"] |= {"nodeName": "node-a"}
    await client.create(PODS, manifest, namespace="default")
    await client.patch(PODS, "late", {"metadata": {"annotations": {DEVICES_ALLOCATED: held}}}, namespace="default")


async def test_all_pods_together_have_the_time_that_is_given_also_those_that_come_late(stage: Stage) -> None:
    server = stage.cluster.server
    held = (await stage.cluster.client.get(PODS, "one", namespace="default")).annotations[DEVICES_ALLOCATED]
    asked = InjectedFault(method="POST", path="/pods/two/eviction", delay_s=2)
    server.faults.add(asked)
    server.faults.add(InjectedFault(method="POST", path="/pods/late/eviction", status=429, times=1000))
    process = await start_gpuloom("drain-card", CARD, "--yes", "--timeout=8s", kubeconfig=str(stage.cluster.kubeconfig))
    await wait_until_met(server, asked)
    await come_late(stage, held)
    async with asyncio.timeout(30):
        _, err = await process.communicate()
    assert process.returncode == 1
    left = re.search(r"pod default/late is not gone after ([0-9.]+) s", err.decode())
    assert left is not None
    assert float(left[1]) < 7


async def test_before_it_asks_it_says_that_hamis_scheduler_may_give_the_card_to_pods_where_it_decides(
    stage: Stage,
) -> None:
    async with scheduler_of(stage, "hami"):
        said = await stage.gpuloom("drain-card", CARD)
    assert said.err.startswith(HAMI_DECIDES)
    assert not await cordoned(stage)


async def test_all_who_stay_are_told_and_that_the_card_is_closed(stage: Stage) -> None:
    stage.cluster.server.faults.add(InjectedFault(method="POST", path="/pods/two/eviction", status=403))
    said = await stage.gpuloom("drain-card", CARD, "--yes")
    assert said.code == 1
    assert "pod default/one evicted\n" in said.out
    assert said.err.startswith("gpuloom: 1 of 2 pods stay: ask eviction of Pod default/two: ")
    assert said.err.endswith("; the card stays cordoned (gpuloom uncordon opens it)\n")
    assert (await cordoned(stage), await staying(stage)) == (True, {"two"})


async def test_what_delays_an_eviction_is_told_once(stage: Stage) -> None:
    refused = InjectedFault(method="POST", path="/pods/two/eviction", status=429, message="its budget", times=3)
    stage.cluster.server.faults.add(refused)
    said = await stage.gpuloom("drain-card", CARD, "--yes")
    assert said.code == 0
    assert said.err == (
        "gpuloom: pod default/two is not evicted yet, and tried again: "
        "ask eviction of Pod default/two: its budget (HTTP 429)\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_who_is_stopped_is_told_that_the_card_is_closed(stage: Stage, number: signal.Signals) -> None:
    first = InjectedFault(method="POST", path="/eviction", status=429)
    stage.cluster.server.faults.add(first)
    stage.cluster.server.faults.add(InjectedFault(method="POST", path="/eviction", status=429, times=1000))
    process = await start_gpuloom("drain-card", CARD, "--yes", kubeconfig=str(stage.cluster.kubeconfig))
    await wait_until_met(stage.cluster.server, first)
    process.send_signal(number)
    async with asyncio.timeout(20):
        _, err = await process.communicate()
    assert process.returncode == 130
    assert err.decode().endswith("gpuloom: stopped: the card stays cordoned (gpuloom uncordon opens it)\n")
    assert (await cordoned(stage), await staying(stage)) == (True, set(NAMES))


@pytest.mark.parametrize("timeout", ["0s", "-5m"])
async def test_a_timeout_that_leaves_no_time_changes_nothing(stage: Stage, timeout: str) -> None:
    said = await stage.gpuloom("drain-card", CARD, "--yes", f"--timeout={timeout}")
    assert (said.code, "leaves no time" in said.err) == (2, True), said.err
    assert (await cordoned(stage), await staying(stage)) == (False, set(NAMES))


async def test_a_pod_that_leaves_already_needs_no_force(stage: Stage) -> None:
    assert (await stage.gpuloom("cordon", "node-a/1")).code == 0
    await stage.cluster.submit(pod_manifest("alone", memory_mib=2000))
    await settle(stage.cluster, "alone")
    slow = {"metadata": {"finalizers": ["example.com/slow"]}}
    await stage.cluster.client.patch(PODS, "alone", slow, namespace="default")
    await stage.cluster.client.delete(PODS, "alone", namespace="default")
    said = await stage.gpuloom("drain-card", CARD, "--yes", "--timeout", "2s")
    assert "pod default/alone is not gone after 2 s" in said.err


async def test_a_pod_that_is_over_is_left_alone(stage: Stage) -> None:
    over = {"status": {"phase": "Succeeded"}}
    await stage.cluster.client.patch(PODS, "one", over, namespace="default", subresource="status")
    said = await stage.gpuloom("drain-card", CARD, "--yes")
    assert (said.code, said.err) == (0, "")
    assert await staying(stage) == {"one"}


async def test_where_closing_is_not_answered_it_is_told_that_the_card_may_be_closed(stage: Stage) -> None:
    stage.cluster.server.faults.add(InjectedFault(method="PATCH", path="/nodes/node-a$", lose_answer=True, times=1000))
    stage.cluster.server.faults.add(InjectedFault(method="GET", path="/nodes/node-a$", cut=True, times=1000))
    said = await stage.gpuloom("drain-card", CARD, "--yes")
    assert said.code == 3
    assert said.err.endswith("; the card may be cordoned (gpuloom uncordon opens it)\n")
    assert await staying(stage) == set(NAMES)
