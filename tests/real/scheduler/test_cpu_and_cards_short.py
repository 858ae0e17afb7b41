"""kube-scheduler preempts for CPU, on a real control plane: it asks gpuloom first, and nobody is evicted in vain."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from local.scheduler.site import card
from msgspec.structs import replace as replace_struct
from real.scheduler.preempting import ON, World, create_classes, open_world, wait
from unit.engine.test_divided_cards import A100

from harness.controlplane import ControlPlane
from harness.installation import scheduler_configuration

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

DIVIDED = replace_struct(
    card("mig"), mode="mig", model="NVIDIA A100-SXM4-40GB", memory_mib=40960, count=7, mig_profiles=A100
)
"""A vendor's own rule decides about it: which instances stand beside which."""


@pytest.fixture(scope="module")
def plane(control_plane_binaries: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("both-short")) as running:
        create_classes(running)
        yield running


@pytest.fixture
async def bare(plane: ControlPlane) -> AsyncIterator[World]:
    """No node."""
    async with open_world(plane) as world:
        yield world


@pytest.fixture
async def world(bare: World) -> World:
    """One node with 16 CPUs and one card of 10,000 MiB."""
    await bare.add_node("n1")
    return bare


@pytest.fixture
async def divided(bare: World) -> World:
    """One node with one divided card."""
    await bare.add_node_of("mig", [DIVIDED])
    return bare


def is_victim(world: World, pod: Any) -> bool:
    return pod.name in world.kubelets.gone_s


async def test_nobody_leaves_for_cpu_where_the_cards_would_not_do(world: World) -> None:
    of_cpu, of_card = await world.run("of-cpu", 0, "low", cpu="14"), await world.run("of-card", 8000, "highest")
    await world.create("high", 8000, "high", cpu="4")
    await asyncio.sleep(5)
    await world.stays(of_cpu, of_card)


async def test_without_the_question_somebody_leaves_in_vain(world: World) -> None:
    configuration = scheduler_configuration(world.process.url)
    del configuration["extenders"][0]["preemptVerb"]
    await asyncio.to_thread(world.plane.stop_scheduler)
    await asyncio.to_thread(world.plane.start_scheduler, configuration)
    of_cpu, of_card = await world.run("of-cpu", 0, "low", cpu="14"), await world.run("of-card", 8000, "highest")
    high = await world.create("high", 8000, "high", cpu="4")
    await wait(lambda: is_victim(world, of_cpu))
    await world.stays(of_card)
    assert not (await world.pod(high.name)).spec.node_name


async def test_for_cpu_alone_kube_scheduler_evicts_where_cards_are_free(world: World) -> None:
    await world.add_node("n2")
    full = await world.run("full", 8000, "highest")
    other = "n2" if full.spec.node_name == "n1" else "n1"
    low = {node: await world.run(f"of-cpu-{node}", 0, "low", cpu="14", nodeName=node) for node in ("n1", "n2")}
    high = await world.create("high", 8000, "high", cpu="4")
    assert await world.wait_node(high) == other
    await world.stays(full, low[full.spec.node_name])
    assert world.exceeded() == {}


async def test_both_short_all_leave_that_have_to_and_the_pod_runs(world: World) -> None:
    of_cpu, of_card = await world.run("of-cpu", 0, "low", cpu="14"), await world.run("of-card", 8000, "middle")
    stays = await world.run("stays", 1500, "low")
    high = await world.create("high", 8000, "high", cpu="4")
    assert await world.wait_node(high) == "n1"
    assert is_victim(world, of_cpu)
    assert is_victim(world, of_card)
    await world.stays(stays)
    assert world.exceeded() == {}


async def test_the_cards_wait_for_the_pod_for_which_kube_scheduler_evicts(world: World) -> None:
    of_cpu, of_card = await world.run("of-cpu", 0, "low", cpu="14"), await world.run("of-card", 8000, "middle")
    world.kubelets.hanging.add("of-cpu")
    high = await world.create("high", 8000, "high", cpu="4")
    await world.wait_nominated(high)
    await wait(lambda: is_victim(world, of_card))
    other = await world.create("other", 8000, "middle")
    await asyncio.sleep(3)
    assert not world.is_bound(other)
    await world.kubelets.end(of_cpu)
    assert await world.wait_node(high) == "n1"
    assert world.exceeded() == {}


async def test_without_preemption_nobody_leaves_for_cards_and_cpu_goes_by_them(world: World) -> None:
    await world.kill()
    await world.lead(replace(ON, preemption="off"))
    of_cpu, of_card = await world.run("of-cpu", 0, "low", cpu="14"), await world.run("of-card", 8000, "low")
    high = await world.create("high", 8000, "high", cpu="4")
    await asyncio.sleep(5)
    await world.stays(of_cpu, of_card)
    await world.remove(of_card)
    assert await world.wait_node(high) == "n1"
    assert is_victim(world, of_cpu)


async def test_beside_it_gpuloom_makes_room_on_the_same_node_for_another_pod(world: World) -> None:
    await world.add_node("n2", cards=2)
    lows = [await world.run(f"low-{number}", 8000, "low") for number in range(3)]
    of_cpu = [await world.run(f"of-cpu-{node}", 0, "low", cpu="14", nodeName=node) for node in ("n1", "n2")]
    pair = [await world.create("of-cards", 8000, "high"), await world.create("of-both", 8000, "high", cpu="4")]
    await asyncio.gather(*map(world.wait_node, pair))
    await asyncio.sleep(2)
    assert len([one for one in lows if is_victim(world, one)]) == 2
    assert len([one for one in of_cpu if is_victim(world, one)]) == 1
    assert world.exceeded() == {}


async def test_a_pod_of_several_containers_gets_room_for_all_of_them(world: World) -> None:
    await world.add_node("n2", cards=2)
    small = await world.run("small", 1000, "middle")
    lows = [await world.run(f"low-{number}", 8000, "low") for number in range(3)]
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "5000"}
    several = [{"name": name, "image": "i", "resources": {"limits": limits}} for name in ("a", "b")]
    high = await world.create("high", 5000, "high", containers=several)
    await world.wait_node(high)
    await world.stays(small)
    assert any(is_victim(world, one) for one in lows)
    assert world.exceeded() == {}


async def test_a_divided_card_is_freed_of_as_few_instances_as_will_do(divided: World) -> None:
    kept, gone = await divided.run("kept", 18000, "middle"), await divided.run("gone", 18000, "low")
    high = await divided.create("high", 15000, "high")
    assert await divided.wait_node(high) == "mig"
    assert is_victim(divided, gone)
    await divided.stays(kept)


async def test_instances_whose_places_do_together_leave_before_a_more_important_one(divided: World) -> None:
    names = {"first": "low", "second": "low", "third": "middle"}
    first, second, third = [await divided.run(name, 9000, importance) for name, importance in names.items()]
    high = await divided.create("high", 15000, "high")
    assert await divided.wait_node(high) == "mig"
    assert is_victim(divided, first)
    assert is_victim(divided, second)
    await divided.stays(third)
