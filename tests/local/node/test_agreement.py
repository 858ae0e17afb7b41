"""The advertised, the registered and the allocated cards agree after every step, whatever happens to the machine."""

import asyncio
import itertools
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from structlog.testing import capture_logs

from gpuloom.kube.client import KubeClient
from gpuloom.local.apiserver import LocalApiServer
from gpuloom.node.replicas import physical_id
from gpuloom.node.settings import NodeSettings
from gpuloom.wire import keys

from .conftest import connect
from .machines import Story, stories
from .world import World

EXAMPLES = 400


class Stage:
    """An API server on which one story after another is played, each on a node of its own."""

    def __init__(self, runner: asyncio.Runner, client: KubeClient, base: NodeSettings) -> None:
        self._base = base
        self._runner = runner
        self._client = client
        self._numbers = itertools.count()

    def play(self, story: Story) -> None:
        # The logs of a thousand stories would bury the one that fails.
        with capture_logs():
            self._runner.run(self._play(story))

    async def _play(self, story: Story) -> None:
        world = World(story, self._client, replace(self._base, node_name=f"n{next(self._numbers)}"))
        await world.begin()
        await check(world)
        for step in story.steps:
            await world.take(step)
            await check(world)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="gl-") as folder, asyncio.Runner() as runner:
        stack = AsyncExitStack()
        server = runner.run(stack.enter_async_context(LocalApiServer()))
        client = runner.run(stack.enter_async_context(connect(server, Path(folder))))
        yield Stage(runner, client, NodeSettings("n", plugins_dir=Path(folder), host_root=Path(folder)))
        runner.run(stack.aclose())


@pytest.mark.timeout(600)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stories())
def test_what_is_advertised_registered_and_allocated_agrees_after_every_step(stage: Stage, story: Story) -> None:
    stage.play(story)


async def check(world: World) -> None:
    await check_registered(world)
    check_truth(world)
    await check_allocated(world)


async def check_registered(world: World) -> None:
    """The scheduler is told the cards that the kubelet is told, as often and as well."""
    advertised = await world.advertised(world.resource)
    registered = await world.registered()
    expected: dict[str, str] = {}
    for card in registered:
        ids = [device for device in advertised if physical_id(device) == card.id]
        assert len(ids) == card.count, (card, ids)
        expected |= dict.fromkeys(ids, "Healthy" if card.healthy else "Unhealthy")
    assert advertised == expected


def check_truth(world: World) -> None:
    """What is offered as well is there and well, and is not filtered."""
    gpus = {gpu.uuid: gpu for gpu in world.machine.gpus}
    cards_of = {device.uuid: gpu for gpu in gpus.values() for device in gpu.devices} | gpus
    for cards in world.inventory.resources.values():
        for card in cards:
            if card.healthy:
                assert cards_of[card.id].healthy, card
                assert cards_of[card.id].index not in world.settings.filter_indexes, card


async def check_allocated(world: World) -> None:
    """A pod sees what it was given, is done, and its cards are still told unless they are gone from the machine."""
    present = {gpu.uuid for gpu in world.machine.gpus} | {
        device.uuid for gpu in world.machine.gpus for device in gpu.devices
    }
    told = {card.id for card in await world.registered()}
    for pod in world.pods:
        assert list(pod.visible) == list(world.sees(pod))
        annotations = (await world.pod(pod.name)).annotations
        assert (annotations[keys.BIND_PHASE], annotations[keys.DEVICES_TO_ALLOCATE]) == (keys.PHASE_SUCCESS, ";")
        if not world.is_described_anew:
            assert {*pod.visible} & present <= told
