"""Making room on a real control plane: kube-scheduler filters and binds, the API server evicts."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
from real.scheduler.preempting import ON, World, create_classes, open_world, wait

from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

ONLY_N1 = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        }
    }
}
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture(scope="module")
def plane(control_plane_binaries: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("preempting")) as running:
        create_classes(running)
        yield running


@pytest.fixture
async def world(plane: ControlPlane) -> AsyncIterator[World]:
    """One node with one card of 10,000 MiB."""
    async with open_world(plane) as world:
        await world.add_node("n1")
        yield world


async def test_the_less_important_leaves_and_the_pod_is_bound_a_moment_later(world: World) -> None:
    small, large = await world.run("small", 2000, "middle"), await world.run("large", 7000, "low")
    high = await world.create("high", 7500, "high")
    assert await world.wait_node(high) == "n1"
    await world.stays(small)
    assert large.metadata.uid in world.process.state.shown.gone
    assert world.exceeded() == {}
    assert world.kubelets.bound_s["high"] - world.kubelets.gone_s["large"] < 5


async def test_a_pod_that_preempts_never_waits(world: World) -> None:
    await world.run("low", 8000, "low")
    await world.create("high", 8000, "never")
    await asyncio.sleep(2)
    await world.stays(await world.pod("low"))


async def test_a_victim_that_hangs_costs_no_other_its_place(world: World) -> None:
    await world.add_node("n2")
    first = await world.run("first", 8000, "low")
    second = await world.run("second", 8000, "middle")
    world.kubelets.hanging.add("first")
    high = await world.create("high", 8000, "high")
    await world.wait_leaving(first)
    await asyncio.sleep(5)
    await world.stays(second)
    await world.kubelets.end(first)
    assert await world.wait_node(high) == first.spec.node_name


async def test_kube_scheduler_does_not_look_for_victims_of_its_own_while_the_pod_waits(world: World) -> None:
    """binding 12: it would find none, say so in other words each time, and try the pod again at each of them."""
    low = await world.run("low", 8000, "low")
    world.kubelets.hanging.add("low")
    high = await world.create("high", 8000, "high")
    await world.wait_leaving(low)
    await wait(lambda: "Preemption is not helpful" in world.last_words(high))
    await world.kubelets.end(low)
    assert await world.wait_node(high) == "n1"


async def test_victims_leave_with_their_own_grace_periods(world: World) -> None:
    grace = {"low-a": 7, "low-b": 45}
    lows = [
        await world.run(name, 4500, "low", terminationGracePeriodSeconds=grace_s) for name, grace_s in grace.items()
    ]
    world.kubelets.hanging.update(grace)
    high = await world.create("high", 9000, "high")
    await world.wait_leaving(*lows)
    assert {name: await world.read_grace(name) for name in grace} == grace
    for low in lows:
        await world.kubelets.end(low)
    assert await world.wait_node(high) == "n1"


async def test_the_room_goes_to_others_when_the_preemptor_is_deleted_meanwhile(world: World) -> None:
    low = await world.run("low", 8000, "low")
    world.kubelets.hanging.add("low")
    high = await world.create("high", 8000, "high")
    await world.wait_leaving(low)
    other = await world.create("other", 8000, "low")
    await world.remove(high)
    assert len(world.process.state.nominations) == 0
    await world.kubelets.end(low)
    assert await world.wait_node(other) == "n1"


async def test_a_higher_pod_between_takes_the_room_and_the_other_waits(world: World) -> None:
    low = await world.run("low", 8000, "low")
    world.kubelets.hanging.add("low")
    high = await world.create("high", 8000, "high")
    await world.wait_leaving(low)
    highest = await world.create("highest", 8000, "highest")
    await asyncio.sleep(2)
    await world.kubelets.end(low)
    assert await world.wait_node(highest) == "n1"
    await wait(lambda: world.process.state.nominations.find(high.metadata.uid) is None)
    assert not world.process.state.shown.pods[high.metadata.uid].spec.node_name


async def test_who_lost_its_room_gets_it_when_the_higher_pod_finds_cards_elsewhere(world: World) -> None:
    low = await world.run("low", 8000, "low")
    world.kubelets.hanging.add("low")
    high = await world.create("high", 8000, "high", affinity=ONLY_N1)
    await world.wait_leaving(low)
    highest = await world.create("highest", 8000, "highest")
    await wait(lambda: world.process.state.nominations.find(highest.metadata.uid) is not None)
    await world.add_node("n2")
    assert await world.wait_node(highest) == "n2"
    other = await world.create("other", 3000, "low")
    await world.kubelets.end(low)
    assert await world.wait_node(high) == "n1"
    assert not world.process.state.shown.pods[other.metadata.uid].spec.node_name


async def test_every_container_of_a_pod_gets_room_on_a_card_of_its_own(world: World) -> None:
    await world.add_node("n2", cards=2)
    lows = [await world.run(f"low-{number}", 8000, "low") for number in range(3)]
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "6000"}
    several = [{"name": name, "image": "i", "resources": {"limits": limits}} for name in ("a", "b")]
    high = await world.create("high", 12000, "high", containers=several)
    assert await world.wait_node(high) == "n2"
    there = {low.name for low in lows if low.spec.node_name == "n2"}
    assert len(there) == 2
    assert there == world.kubelets.gone_s.keys()
    assert world.exceeded() == {}


async def test_cards_that_a_vendor_hands_out_by_wings_are_freed_by_wings(world: World) -> None:
    """The two least important stay: with their cards no four are linked as the vendor asks for."""
    await world.add_xpu_node("xpu")
    importance = {0: "middle", 1: "low", 2: "middle", 3: "highest", 4: "middle", 5: "highest", 6: "middle", 7: "low"}
    for place, name in importance.items():
        pod = await world.create_on_xpus(f"on-{place}", 1, name, f"xpu-kunlun-{place}")
        await world.wait_node(pod)
    high = await world.create_on_xpus("high", 4, "high")
    assert await world.wait_node(high) == "xpu"
    assert world.kubelets.gone_s.keys() == {"on-0", "on-2", "on-4", "on-6"}
    assert (await world.pod("high")).annotations["BAIDU_COM_DEVICE_IDX"] == "0,2,4,6"


async def test_of_two_preemptors_for_one_card_one_gets_it_and_nobody_leaves_for_the_other(world: World) -> None:
    await world.run("low", 8000, "low")
    pair = [await world.create(f"high-{number}", 8000, "high") for number in range(2)]
    await wait(lambda: any(world.is_bound(one) for one in pair))
    await asyncio.sleep(3)
    bound = [(await world.pod(one.name)).spec.node_name for one in pair]
    assert sorted(bound) == ["", "n1"]
    assert world.process.parts.preemption.counts.victims == 1


@pytest.fixture
def controlled(own_control_plane: ControlPlane) -> ControlPlane:
    """With the controllers, one of which says how many pods a budget lets go."""
    create_classes(own_control_plane)
    own_control_plane.start_controller_manager()
    return own_control_plane


def make_budget(plane: ControlPlane, app: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    plane.api.create(BUDGETS, {"metadata": {"name": app}, "spec": spec})
    plane.api.wait_for(f"{BUDGETS}/{app}", lambda found: found.get("status", {}).get("currentHealthy") == 1)


async def test_a_protected_pod_stays_while_another_will_do(controlled: ControlPlane) -> None:
    async with open_world(controlled) as world:
        await world.add_node("n1")
        await world.add_node("n2")
        protected, other = await world.run("protected", 8000, "low"), await world.run("other", 8000, "middle")
        await asyncio.to_thread(make_budget, controlled, "protected")
        high = await world.create("high", 8000, "high")
        assert await world.wait_node(high) == other.spec.node_name
        await world.stays(protected)


async def test_a_budget_is_broken_where_nothing_else_helps_and_strictly_never(controlled: ControlPlane) -> None:
    async with open_world(controlled) as world:
        await world.kill()
        await world.lead(replace(ON, preemption_budgets="strict"))
        await world.add_node("n1")
        guarded = await world.run("guarded", 8000, "low")
        await asyncio.to_thread(make_budget, controlled, "guarded")
        high = await world.create("high", 8000, "high")
        dropped = world.process.parts.preemption.counts.dropped
        await wait(lambda: dropped["budget"] + dropped["forbidden"] > 0)
        await asyncio.sleep(3)
        await world.stays(guarded)
        await world.kill()
        await world.lead()
        assert await world.wait_node(high, 60) == "n1"
