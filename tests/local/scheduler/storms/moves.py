"""What lets a process move pods: one waits for a whole card, and on each there is somebody who could be elsewhere."""

import asyncio
from contextlib import suppress

from local.scheduler.storms.nodes import NodeDeeds
from local.scheduler.storms.pods import PodDeeds
from local.scheduler.storms.world import NAMES, NAMESPACES, Deed, World

from gpuloom.kube import DISRUPTION_BUDGETS, HOST_PODS, ApiError
from gpuloom.wire.hostpods import HostPod

SMALL_MIB, WHOLE_MIB = 2000, 10000
SPREAD = {"hami.io/gpu-scheduler-policy": "spread"}


class MoveDeeds:
    def __init__(self, world: World, pods: PodDeeds, nodes: NodeDeeds) -> None:
        self._world, self._site, self._chance, self._pods, self._nodes = world, world.site, world.chance, pods, nodes

    @property
    def deeds(self) -> dict[Deed, float]:
        """What may be done, by how often it is."""
        return {self.want_whole_card: 1} if self._world.settings.defragmentation == "on" else {}

    async def want_whole_card(self) -> None:
        """Let most pods end, a small one come to every card, and then one wait that nobody leaves a card."""
        await self._make_space()
        for node in NAMES * 2:
            with suppress(ApiError):
                await self._run_small(await self._submit(SMALL_MIB, owner="set"), node)
        with suppress(ApiError):
            await self._pods.try_pod(await self._submit(WHOLE_MIB), *NAMES, is_told=True)
        for _ in range(5):
            await self._site.clock.advance(1)
            await asyncio.sleep(0.02)

    async def _make_space(self) -> None:
        for pod in await self._world.find_pods():
            if self._chance.random() < 0.9:
                self._world.sent_away.add(pod.metadata.uid)
                await self._world.delete_pod(pod)
        for namespace in NAMESPACES:
            for name in ("a", "b"):
                with suppress(ApiError):
                    await self._site.client.delete(DISRUPTION_BUDGETS, name, namespace=namespace)
        await self._nodes.give_all_cards_back()
        for name in NAMES:
            await self._world.put_in_order(name)

    async def _submit(self, memory_mib: int, owner: str = "") -> HostPod:
        uid = await self._pods.submit(memory_mib=memory_mib, owner=owner, annotations=SPREAD)
        namespace, name = self._world.created[uid].split("/")
        return await self._site.client.get(HOST_PODS, name, namespace=namespace)

    async def _run_small(self, pod: HostPod, node: str) -> None:
        await self._pods.try_pod(pod, node)
        for _ in range(4):
            await self._site.clock.advance(0.1)
            await asyncio.sleep(0.005)
            await self._pods.serve(1.0)
        await self._pods.start(1.0)
