"""Moves that the command line makes: one pod at a time, and the cards that become free are kept free."""

import asyncio
import json
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from local.asking.conftest import DEADLINE_S, HAMI_DECIDES, Stage, scheduler_of, settle, start_gpuloom
from local.asking.terminal import open_terminal

from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import InjectedFault
from gpuloom.local.cluster import LocalCluster
from gpuloom.local.description import ClusterDescription, NodeDescription
from gpuloom.local.manifests import pod_manifest
from gpuloom.local.waiting import wait_until
from gpuloom.node.simulated import load_machine
from gpuloom.wire.keys import NODE_CORDON, NODE_DEFRAG, NODE_DEFRAG_RENEWED, NOMINATED
from gpuloom.wire.nomination import encode_nomination

NAMES = ("moves-1", "moves-2")
ON_NODE_B = {"kubernetes.io/hostname": "node-b"}


def owned(name: str) -> dict[str, Any]:
    manifest = pod_manifest(name, memory_mib=6000, cores=25)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "moves", "uid": "u-moves", "controller": True}
    manifest["metadata"]["ownerReferences"] = [owner]
    manifest["metadata"]["annotations"] = {"hami.io/gpu-scheduler-policy": "spread"}
    return manifest


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    nodes = (NodeDescription("node-a", load_machine("two-t4")), NodeDescription("node-b", load_machine("four-l4")))
    with tempfile.TemporaryDirectory(prefix="gpuloom-") as directory:
        async with LocalCluster(ClusterDescription(nodes), Path(directory)) as cluster:
            await cluster.wait_until_registered()
            for name in NAMES:
                await cluster.submit(owned(name))
            await settle(cluster, *NAMES)
            yield Stage(cluster)


async def nodes_of_pods(stage: Stage) -> dict[str, str]:
    pods, _ = await stage.cluster.client.list_all(PODS)
    return {pod.name: pod.spec.node_name or "" for pod in pods}


async def closed_cards(stage: Stage) -> str:
    return (await stage.cluster.client.get(NODES, "node-a")).annotations.get(NODE_CORDON, "")


@asynccontextmanager
async def controller(stage: Stage) -> AsyncIterator[list[int]]:
    """Make pods anew, as a ReplicaSet does; tell how many there were each time one was missing."""
    counts: list[int] = []
    wanted = len(await nodes_of_pods(stage))

    async def keep() -> None:
        made = 0
        while True:
            there = await nodes_of_pods(stage)
            if len(there) < wanted:
                counts.append(len(there))
                made += 1
                await stage.cluster.submit(owned(f"anew-{made}"))
            await asyncio.sleep(0.1)

    task = asyncio.create_task(keep())
    yield counts
    task.cancel()


async def test_pods_move_one_at_a_time_to_cards_that_are_not_to_become_free(stage: Stage) -> None:
    assert set((await nodes_of_pods(stage)).values()) == {"node-a"}
    async with controller(stage) as counts:
        said = await stage.gpuloom("defrag", "--for", "t4=2", "--execute", "--yes")
    assert (said.code, said.err) == (0, "")
    assert set((await nodes_of_pods(stage)).values()) == {"node-b"}
    assert counts == [1] * len(NAMES)
    assert said.out.count("runs again on node node-b") == len(NAMES)
    assert await closed_cards(stage) == ""
    assert (await stage.gpuloom("defrag", "--for", "t4=2")).out.startswith("2 whole cards t4: fits on node node-a")


async def test_before_it_asks_it_says_that_hamis_scheduler_may_give_closed_cards_to_pods_where_it_decides(
    stage: Stage,
) -> None:
    async with scheduler_of(stage, "hami"):
        said = await stage.gpuloom("defrag", "--for", "t4=2", "--execute")
    assert said.err.startswith(HAMI_DECIDES)
    assert sorted(await nodes_of_pods(stage)) == sorted(NAMES)


async def test_nobody_is_evicted_for_one_of_a_group(stage: Stage, tmp_path: Path) -> None:
    """Whether the others of its group find room too is not known."""
    only_t4 = {"nvidia.com/use-gputype": "T4"}
    manifest = pod_manifest("member", memory_percentage=100, cores=100, cards=2, annotations=only_t4)
    manifest["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    file = tmp_path / "member.json"
    file.write_text(json.dumps(manifest))
    said = await stage.gpuloom("defrag", "--for", str(file), "--execute", "--yes")
    assert said.code == 1
    assert said.err.endswith(
        "nobody is evicted for Pod/member: it starts together with the group train, "
        "and whether the others find room too is not known; leave --execute out for the plan\n"
    )
    assert sorted(await nodes_of_pods(stage)) == sorted(NAMES)


async def test_no_move_is_planned_to_where_room_is_made_for_another(stage: Stage) -> None:
    waiting = pod_manifest("waiting", memory_mib=6000)
    waiting["spec"]["schedulerName"] = "nobody"
    await stage.cluster.client.create(PODS, waiting, namespace="default")
    # Only afterwards: the webhook takes it off new pods.
    told = {NOMINATED: encode_nomination("node-b", datetime.now(UTC))}
    await stage.cluster.client.patch(PODS, "waiting", {"metadata": {"annotations": told}}, namespace="default")
    said = await stage.gpuloom("defrag", "--for", "t4=2")
    assert (said.code, said.out) == (
        1,
        "2 whole cards t4: found no moves that make room: see gpuloom fits and gpuloom explain\n",
    )


async def strand(stage: Stage) -> None:
    """Let moves to the second node strand less: somebody is on each of its cards."""
    beside = [f"beside-{number}" for number in range(4)]
    for name in beside:
        await stage.cluster.submit(pod_manifest(name, memory_mib=6000, cores=25, node_selector=ON_NODE_B))
    await settle(stage.cluster, *NAMES, *beside)


async def test_without_a_pod_the_moves_are_made_that_strand_less(stage: Stage) -> None:
    await strand(stage)
    told = (await stage.gpuloom("defrag", "-o", "json")).json()
    moves = [move for step in told["steps"] for move in step["moves"]]
    assert {(move["node"], move["target"]) for move in moves} == {("node-a", "node-b")}
    freed = sum(step["freed_cards"] for step in told["steps"])
    assert told["stranded_cards_before"] - told["stranded_cards_after"] == pytest.approx(freed)
    assert told["empty_cards_after"] == told["empty_cards_before"] + len(moves)
    async with controller(stage) as counts:
        said = await stage.gpuloom("defrag", "--execute", "--yes")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"{len(moves)} move")
    assert said.out.count("runs again on node node-b") == len(moves)
    assert counts == [5] * len(moves)
    assert await closed_cards(stage) == ""


async def test_without_a_pod_the_cards_that_pods_leave_are_closed_meanwhile(stage: Stage) -> None:
    await strand(stage)
    count = len(await nodes_of_pods(stage))
    process = await start_gpuloom("defrag", "--execute", "--yes", kubeconfig=str(stage.cluster.kubeconfig))
    await wait_until(stage.cluster.client, PODS, lambda found: len(found) < count, timeout_s=DEADLINE_S)
    assert await closed_cards(stage)
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(DEADLINE_S):
        await process.communicate()


async def test_without_a_pod_nobody_waits_longer_than_told_for_one_that_does_not_run_again(stage: Stage) -> None:
    await strand(stage)
    said = await stage.gpuloom("defrag", "--execute", "--yes", "--timeout", "2s")
    assert (said.code, " runs after 2 s" in said.err) == (1, True), said.err


async def test_no_plan_has_more_moves_than_allowed(stage: Stage) -> None:
    said = await stage.gpuloom("defrag", "--for", "t4=2", "--max-moves", "1")
    assert (said.code, said.out.startswith("2 whole cards t4: found no moves that make room")) == (1, True), said.out


async def test_no_further_pod_is_evicted_when_one_does_not_run_again(stage: Stage) -> None:
    said = await stage.gpuloom("defrag", "--for", "t4=2", "--execute", "--yes", "--timeout", "3s")
    assert said.code == 1
    assert "no pod that ReplicaSet moves made in place of default/moves-1 runs after 3 s" in said.err
    assert said.err.endswith("0 of 2 moves were made, and the cards are open again\n")
    assert set(await nodes_of_pods(stage)) == {"moves-2"}
    assert await closed_cards(stage) == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_who_is_stopped_leaves_no_card_closed(stage: Stage, number: signal.Signals) -> None:
    tokens = ("defrag", "--for", "t4=2", "--execute", "--yes")
    process = await start_gpuloom(*tokens, kubeconfig=str(stage.cluster.kubeconfig))
    await wait_until(stage.cluster.client, PODS, lambda found: len(found) < len(NAMES), timeout_s=DEADLINE_S)
    assert await closed_cards(stage)
    process.send_signal(number)
    async with asyncio.timeout(DEADLINE_S):
        _, err = await process.communicate()
    assert (process.returncode, err) == (130, b"gpuloom: stopped: nobody else moves, and the cards are open again\n")
    assert await closed_cards(stage) == ""
    assert set(await nodes_of_pods(stage)) == {"moves-2"}


async def test_who_is_killed_leaves_noted_which_cards_are_to_be_opened_for_it(stage: Stage) -> None:
    tokens = ("defrag", "--for", "t4=2", "--execute", "--yes")
    process = await start_gpuloom(*tokens, kubeconfig=str(stage.cluster.kubeconfig))
    await wait_until(stage.cluster.client, PODS, lambda found: len(found) < len(NAMES), timeout_s=DEADLINE_S)
    process.kill()
    async with asyncio.timeout(DEADLINE_S):
        await process.communicate()
    left = (await stage.cluster.client.get(NODES, "node-a")).annotations
    assert left[NODE_DEFRAG] == left[NODE_CORDON]
    assert left[NODE_DEFRAG_RENEWED]
    for card in left[NODE_CORDON].split(","):
        assert (await stage.gpuloom("uncordon", card)).code == 0
    opened = (await stage.cluster.client.get(NODES, "node-a")).annotations
    assert not {NODE_CORDON, NODE_DEFRAG, NODE_DEFRAG_RENEWED} & opened.keys()


async def test_a_card_that_is_cordoned_during_moves_stays_closed(stage: Stage) -> None:
    tokens = ("defrag", "--for", "t4=2", "--execute", "--yes")
    process = await start_gpuloom(*tokens, kubeconfig=str(stage.cluster.kubeconfig))
    await wait_until(stage.cluster.client, PODS, lambda found: len(found) < len(NAMES), timeout_s=DEADLINE_S)
    card, *others = (await closed_cards(stage)).split(",")
    assert others
    said = await stage.gpuloom("cordon", card)
    assert said.out == f"card {card} of node node-a cordoned\n"
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(DEADLINE_S):
        await process.communicate()
    assert await closed_cards(stage) == card
    assert NODE_DEFRAG not in (await stage.cluster.client.get(NODES, "node-a")).annotations


async def test_nobody_is_evicted_unasked(stage: Stage) -> None:
    said = await stage.gpuloom("defrag", "--for", "t4=2", "--execute")
    assert (said.code, said.err) == (2, "gpuloom: 2 pods would be evicted: say so with --yes\n")
    assert set(await nodes_of_pods(stage)) == set(NAMES)
    assert await closed_cards(stage) == ""


async def test_ctrl_c_at_the_question_ends_it(stage: Stage) -> None:
    tokens = ("defrag", "--for", "t4=2", "--execute")
    async with open_terminal(*tokens, kubeconfig=str(stage.cluster.kubeconfig)) as terminal:
        await terminal.wait_until_asked()
        terminal.process.send_signal(signal.SIGINT)
        assert (await terminal.end()).code == 130
    assert set(await nodes_of_pods(stage)) == set(NAMES)


async def test_a_pod_that_takes_long_to_leave_is_told_to_be_evicted(stage: Stage) -> None:
    body = {"metadata": {"finalizers": ["example.com/slow"]}}
    await stage.cluster.client.patch(PODS, "moves-1", body, namespace="default")
    said = await stage.gpuloom("defrag", "--for", "t4=2", "--execute", "--yes", "--timeout", "2s")
    assert (said.code, "pod default/moves-1 is not gone after 2 s" in said.err) == (1, True), said.err
    assert said.out.endswith("pod default/moves-1 evicted\n")


async def nobody_moves(stage: Stage, told: str, code: int = 1) -> None:
    """See that one line says why no move is made, and that nothing is left changed."""
    said = await stage.gpuloom("defrag", "--for", "t4=2", "--execute", "--yes")
    assert (said.code, said.err.count("\n")) == (code, 1), said
    assert told in said.err
    assert set(await nodes_of_pods(stage)) == set(NAMES)
    assert await closed_cards(stage) == ""


async def test_who_may_not_evict_is_told_so_and_moves_nobody(stage: Stage) -> None:
    stage.cluster.server.faults.add(InjectedFault(method="POST", path="/eviction", status=403))
    await nobody_moves(stage, "HTTP 403")


async def test_who_may_not_cordon_is_told_so_and_moves_nobody(stage: Stage) -> None:
    stage.cluster.server.faults.add(InjectedFault(method="PATCH", path="/nodes/node-a", status=403, times=1000))
    await nobody_moves(stage, "HTTP 403", code=3)


async def test_a_budget_that_forbids_it_ends_the_moves(stage: Stage) -> None:
    stage.cluster.server.faults.add(InjectedFault(method="POST", path="/eviction", status=429))
    await nobody_moves(stage, "0 of 2 moves were made, and the cards are open again")


async def test_a_form_for_programs_makes_no_moves(stage: Stage) -> None:
    said = await stage.gpuloom("defrag", "--for", "t4=2", "--execute", "--yes", "-o", "json")
    assert (said.code, said.err) == (2, "gpuloom: --output json tells a plan: leave --execute out\n")
    assert set(await nodes_of_pods(stage)) == set(NAMES)
