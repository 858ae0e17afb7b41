"""What stays in memory of the pods of a node."""

import asyncio

import msgspec
import pytest
from unit.kube.scripted import ScriptedServer, change, pod, pod_list, stream

from gpuloom.node.audit.truths import read_promise
from gpuloom.node.boundpods import bound_pods
from gpuloom.node.nodepods import NodePods
from gpuloom.wire.fullpods import EnvVar

RESOURCE = "nvidia.com/gpu"
ONE = "GPU-a,NVIDIA,1000,10:;"
LARGE = "x" * 100_000
PODS = bound_pods(RESOURCE)


def huge_pod(phase):
    amounts = {f"example.com/r{number}": "0" for number in range(1000)}
    container = {
        "name": "c",
        "args": [LARGE],
        "env": [{"name": f"E{number}", "value": "x"} for number in range(100_000)],
        "resources": {"limits": amounts, "requests": amounts},
    }
    found = pod("huge", nodeName="n1", schedulerName=LARGE, containers=[container])
    found["metadata"] |= {
        "labels": {"l": LARGE},
        "annotations": {"a": LARGE},
        "ownerReferences": [{"kind": "Job", "name": LARGE}],
    }
    return found | {"status": {"phase": phase, "message": LARGE}}


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded", "Failed"])
@pytest.mark.parametrize("way", ["listed", "added"])
async def test_of_a_huge_pod_hardly_anything_stays(way, phase):
    found = huge_pod(phase)
    answers = [pod_list(found)] if way == "listed" else [pod_list(), stream(change("ADDED", found))]
    async with ScriptedServer(*answers) as server, server.client() as client, asyncio.timeout(60):
        pods = NodePods(client, PODS, "n1")
        task = asyncio.create_task(pods.run())
        await server.held.wait()
        task.cancel()
        await asyncio.wait([task])
    assert [one.name for one in pods.all] == ["huge"]
    assert len(msgspec.json.encode([*pods.all])) < 1000


async def test_pages_are_small():
    async with ScriptedServer(pod_list()) as server, server.client() as client:
        await client.list_all(PODS)
    assert server.seen[0].query["limit"] == "20"


async def test_a_pod_that_cannot_be_read_does_not_take_the_others_with_it():
    async with ScriptedServer(pod_list(pod("bad", nodeName=7), pod("good"))) as server, server.client() as client:
        found, _ = await client.list_all(PODS)
    assert [one.name for one in found] == ["good"]


def test_that_a_container_refuses_the_limiter_stays(make_pod):
    refusal = {"name": "CUDA_DISABLE_CONTROL", "value": "true"}
    env = [{"name": "OTHER", "value": "true"}, {"name": "CUDA_DISABLE_CONTROL", "value": "false"}, refusal]
    kept = PODS.keep(make_pod(ONE, containers=[{"name": "c", "env": env}]))
    assert kept.containers[0].env == [EnvVar(**refusal)]


def test_device_lists_stay_also_those_of_other_vendors(make_pod):
    lists = {"hami.io/dcu-devices-to-allocate": "DCU-0,DCU,1,1:;", "hami.io/vgpu-devices-allocated": ONE}
    pod = make_pod(ONE, annotations=lists | {"other/note": "x"})
    assert PODS.keep(pod).annotations.items() >= lists.items()
    assert "other/note" not in PODS.keep(pod).annotations


def test_containers_stay_in_their_places(make_pod):
    sidecar = {"name": "i", "restartPolicy": "Always"}
    kept = PODS.keep(make_pod(ONE, init_containers=[sidecar], containers=[{"name": "a"}, {"name": "b"}]))
    assert [(one.name, one.is_sidecar) for one in kept.all_containers] == [("i", True), ("a", False), ("b", False)]


def test_that_an_ended_pod_came_past_the_scheduler_is_still_known(make_pod):
    asks = {"name": "b", "resources": {"limits": {RESOURCE: "1"}}}
    absent = {"hami.io/vgpu-node": ""}
    kept = PODS.keep(make_pod(phase="Failed", containers=[{"name": "a"}, asks], annotations=absent))
    assert read_promise(kept, RESOURCE).is_foreign
    assert [one.name for one in kept.all_containers] == ["b"]


def test_instances_of_others_making_are_still_seen(make_pod):
    limits = {f"nvidia.com/mig-{number}": "0" for number in range(100)}
    kept = PODS.keep(make_pod(containers=[{"name": "c", "resources": {"limits": limits}}]))
    assert read_promise(kept, RESOURCE).has_instances
    assert len(kept.containers[0].limits) == 1
