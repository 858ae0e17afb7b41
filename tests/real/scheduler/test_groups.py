"""Pods that kube-scheduler 1.37 starts together, on a real control plane (binding 2.2)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from real.scheduler.preempting import World, create_classes, open_world, wait

from gpuloom.wire.objects import Pod
from harness import binaries
from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

SERVED = "scheduling.k8s.io/v1beta1"
WHOLE_MIB = 10000
AT_ONCE_S = 5.0


@pytest.fixture(scope="module")
def plane(control_plane_binaries: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    if binaries.read_version(binaries.KUBERNETES).startswith("v1.34."):
        pytest.skip("Kubernetes 1.34 has no PodGroup")
    directory = tmp_path_factory.mktemp("groups")
    with ControlPlane(directory, feature_gates={"GenericWorkload": True}, apis=[SERVED]) as running:
        create_classes(running)
        yield running


@pytest.fixture
async def world(plane: ControlPlane) -> AsyncIterator[World]:
    """Two nodes with one card each."""
    async with open_world(plane) as world:
        for name in ("n1", "n2"):
            await world.add_node(name)
        yield world


async def start_group(world: World, name: str, size: int) -> list[Pod]:
    """Create pods of one whole card each that start together or not at all."""
    policy = {"gang": {"minCount": size}}
    group = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, "priorityClassName": "middle"}}
    await asyncio.to_thread(world.plane.api.create, f"/apis/{SERVED}/namespaces/default/podgroups", group)
    member: dict[str, Any] = {"schedulingGroup": {"podGroupName": name}}
    return [await world.create(f"{name}-{number}", WHOLE_MIB, "middle", **member) for number in range(size)]


def holders(world: World) -> list[str]:
    return sorted(one.name for one in world.process.state.cluster.ledger)


async def wait_failed(world: World, name: str, size: int) -> None:
    """Wait until a group has failed and holds nothing."""
    await wait(lambda: any(holder.startswith(name) for holder in holders(world)))
    await wait(lambda: not any(holder.startswith(name) for holder in holders(world)), AT_ONCE_S)
    bound = [(await world.pod(f"{name}-{number}")).spec.node_name for number in range(size)]
    assert bound == [""] * size


async def test_a_group_that_does_not_fit_holds_nothing_and_runs_when_it_fits(world: World) -> None:
    pods = await start_group(world, "train", 3)
    await wait_failed(world, "train", 3)
    single = await world.create("single", WHOLE_MIB, "middle")
    await world.wait_node(single, AT_ONCE_S)
    assert not any(world.is_bound(pod) for pod in pods)
    await world.remove(single)
    await world.add_node("n3")
    assert {await world.wait_node(pod) for pod in pods} == {"n1", "n2", "n3"}
    assert world.exceeded() == {}


async def test_a_group_that_does_not_fit_leaves_the_cards_to_one_that_does(world: World) -> None:
    await start_group(world, "large", 3)
    small = await start_group(world, "small", 2)
    assert {await world.wait_node(pod) for pod in small} == {"n1", "n2"}


async def test_two_groups_that_do_not_fit_hold_nothing_in_the_end(world: World) -> None:
    for name in ("left", "right"):
        await start_group(world, name, 3)
    await wait_failed(world, "left", 3)
    await asyncio.sleep(10)
    for _ in range(50):
        await asyncio.sleep(0.1)
        assert holders(world) == []
