"""Whoever makes room is killed at each step, on a real control plane: the next one goes on, and nobody leaves twice."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
from real.scheduler.holding import Write
from real.scheduler.preempting import ON, World, create_classes, open_world, wait

from gpuloom.kube import EVENTS
from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

LOWS = ("low-a", "low-b")


@pytest.fixture(scope="module")
def plane(control_plane_binaries: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("killed")) as running:
        create_classes(running)
        yield running


@pytest.fixture
async def world(plane: ControlPlane) -> AsyncIterator[World]:
    """One node whose card two pods fill that end when told, and one on which a pod is that is not in the way."""
    async with open_world(plane) as world:
        await world.add_node("n1")
        for name in LOWS:
            await world.run(name, 4500, "low")
        await world.add_node("n2", memory_mib=5000)
        await world.run("bystander", 4500, "low")
        world.kubelets.hanging.update(LOWS)
        yield world


async def end_lows(world: World) -> None:
    """Let those that were asked to leave be gone, once both were asked."""
    lows = [await world.pod(name) for name in LOWS if name not in world.kubelets.gone_s]
    await world.wait_leaving(*lows)
    for low in lows:
        await world.kubelets.end(low)


async def goes_on(world: World) -> None:
    """See that another process goes on where the one that is running is killed."""
    high = await world.pod("high")
    await world.kill()
    await world.lead()
    await end_lows(world)
    assert await world.wait_node(high) == "n1"
    await world.stays(await world.pod("bystander"))
    assert world.exceeded() == {}
    events, _ = await world.client.list_all(EVENTS, namespace="default")
    told = [event for event in events if event.reason == "Preempted" and event.involved_object.name in LOWS]
    assert all((event.count or 1) == 1 for event in told)
    assert len({event.involved_object.uid for event in told}) == len(told)


async def occupy_the_only_plan(world: World) -> None:
    """Let a more important pod wait for a victim that does not end, where room is made for one pod at a time."""
    await world.kill()
    await world.lead(replace(ON, preemption_most_plans=1))
    await world.add_node("n3", memory_mib=12000)
    victim = await world.run("elsewhere", 12000, "low")
    world.kubelets.hanging.add(victim.name)
    first = await world.create("first", 12000, "highest")
    await world.wait_nominated(first)


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "write", [Write("nominate"), Write("evict"), Write("evict", 2)], ids=lambda one: f"{one.kind}-{one.number}"
)
async def test_killed_at_a_write_that_leads_to_room(world: World, write: Write, *, is_after: bool) -> None:
    hold = world.hold(write, is_after=is_after)
    await world.create("high", 9000, "high")
    await wait(hold.reached.is_set)
    await goes_on(world)


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
async def test_killed_while_the_pod_is_bound(world: World, *, is_after: bool) -> None:
    hold = world.hold(Write("bind"), is_after=is_after)
    await world.create("high", 9000, "high")
    await end_lows(world)
    await wait(hold.reached.is_set)
    await goes_on(world)


async def test_killed_before_anybody_looked(world: World) -> None:
    await occupy_the_only_plan(world)
    high = await world.create("high", 9000, "high")
    await wait(lambda: len(world.process.parts.preemption.attempts) > 0)
    assert world.process.state.nominations.find(high.metadata.uid) is None
    await goes_on(world)


@pytest.mark.parametrize("gone", [1, 2])
async def test_killed_when_some_are_gone(world: World, gone: int) -> None:
    await world.create("high", 9000, "high")
    lows = [await world.pod(name) for name in LOWS]
    await world.wait_leaving(*lows)
    for low in lows[:gone]:
        await world.kubelets.end(low)
    await goes_on(world)
