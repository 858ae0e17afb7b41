"""A pod that is filtered again gives back what it held; those that wait are looked at only if that is free then."""

import asyncio
import json
from typing import Any

import pytest

from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.recording.lines import decode_line

CARD_MIB = 10000


class Scene:
    """Nodes a and b with a card each, and a pod that was filtered once, to node a; nobody has looked since."""

    async def start(self) -> None:
        self.player = Player()
        for name in ("a", "b"):
            register = {"hami.io/node-nvidia-register": f"GPU-{name},10,{CARD_MIB},100,NVIDIA-NVIDIA A40,0,true:"}
            metadata = {"name": name, "annotations": register}
            node = {"kind": "Node", "metadata": metadata, "status": {"allocatable": {"nvidia.com/gpu": "10"}}}
            await self._play(type="ADDED", object=node)
        await self._play(type="RECONCILE")
        limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": CARD_MIB}
        containers = [{"name": "c", "resources": {"limits": limits}}]
        self._pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "p"}, "spec": {"containers": containers}}
        await self._play(type="ADDED", object={"kind": "Pod", **self._pod})
        await self.filter("a")
        self._freed.clear()

    async def filter(self, *names: str) -> None:
        await self._play(type="FILTER", args={"Pod": self._pod, "Nodes": None, "NodeNames": list(names)})

    @property
    def looks_again(self) -> bool:
        """Whether those that wait are looked at."""
        return self._freed.is_set()

    @property
    def _freed(self) -> asyncio.Event:
        return self.player.process.parts.state.waiting.capacity_freed

    async def _play(self, **line: Any) -> None:
        await self.player.play(decode_line(json.dumps(line).encode()))


@pytest.fixture
async def scene() -> Scene:
    made = Scene()
    await made.start()
    return made


async def test_a_pod_that_gets_the_same_again_frees_nothing(scene: Scene) -> None:
    await scene.filter("a")
    assert not scene.looks_again


async def test_a_pod_that_goes_elsewhere_frees_what_it_held(scene: Scene) -> None:
    await scene.filter("b")
    assert scene.looks_again


async def test_a_pod_that_fits_nowhere_now_frees_what_it_held(scene: Scene) -> None:
    await scene.filter("unknown")
    assert scene.looks_again
