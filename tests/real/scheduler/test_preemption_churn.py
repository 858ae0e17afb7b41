"""Pods of all classes come and go on a real control plane, and both schedulers are killed: nobody leaves in vain.

`make churns` runs twenty of these; `REAL_CHURNS` says how many, `FIRST` where to begin.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from itertools import takewhile
from random import Random

import pytest
from local.scheduler.churn import NODES
from real.scheduler.preempting import CLASSES, World, create_classes, open_world, wait

from gpuloom.wire.objects import Pod
from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

FIRST, CHURNS = int(os.environ.get("FIRST", "0")), int(os.environ.get("REAL_CHURNS", "1"))
PODS, MOST_PODS = 40, 160
LEAST_EVICTING = 3


@pytest.fixture(scope="module")
def plane(control_plane_binaries: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("churning")) as running:
        create_classes(running)
        yield running


@pytest.fixture
async def world(plane: ControlPlane) -> AsyncIterator[World]:
    """Nodes with one card of 10,000 MiB each."""
    async with open_world(plane) as world:
        for name in NODES:
            await world.add_node(name)
        yield world


def has_settled(world: World) -> bool:
    """Whether nobody leaves, nobody is to have others' room, and nobody waits whom the less important could let in."""
    state = world.process.state
    is_quiet = not len(state.nominations) and not any(map(state.shown.is_terminating, state.shown.pods))
    return is_quiet and world.book.find_unserved(state) == []


async def delete(world: World, pod: Pod) -> None:
    world.book.deleted.add(pod.metadata.uid)
    await world.kubelets.end(pod)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CHURNS))
async def test_every_victim_was_needed_and_no_card_is_exceeded(world: World, seed: int) -> None:
    chance, pods = Random(seed), list[Pod]()
    # Where few were evicted, as by seed 841, some more come.
    for number in takewhile(lambda at: at < PODS or len(world.book.evicting) <= LEAST_EVICTING, range(MOST_PODS)):
        memory_mib = chance.choice((1000, 2000, 3000, 5000, 8000))
        pods.append(await world.create(f"p-{number}", memory_mib, chance.choice(list(CLASSES))))
        await asyncio.sleep(chance.choice((0.0, 0.1, 0.8)))
        assert world.exceeded() == {}
        if chance.random() < 0.2:
            await delete(world, chance.choice(pods))
        if number == 20:
            await world.kill()
            await world.lead()
    await wait(lambda: has_settled(world), 60)
    assert world.book.wrong == []
    assert world.exceeded() == {}
    assert len(world.book.evicting) > LEAST_EVICTING
    assert world.book.find_in_vain() == []
