"""A pod that waits for its victims is tried at every event: what was just said of it is not worked out again."""

from dataclasses import replace
from typing import Any

import pytest
from local.scheduler.clock import poll
from local.scheduler.site import DEFAULTS, Site, card
from msgspec.structs import replace as replace_struct

from gpuloom.kube import PODS
from gpuloom.scheduler.filter.repeated import REMEMBERED_S
from gpuloom.wire.objects import Pod

ON = replace(DEFAULTS, preemption="on")
NODES = ("n1", "n2")


class Scene:
    """Two nodes of a full card each; ``high`` is nominated for one of them and was refused once since."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.low: dict[str, Pod] = {}

    async def start(self) -> None:
        site = self.site
        await site.start(ON)
        await site.process.wait_synced()
        for node in NODES:
            await site.register(node, card(node))
            self.low[node] = await self._run(node)
        self.high = await site.submit("high", memory_mib=8000, spec={"priority": 10})
        assert await site.choose(self.high, *NODES) is None
        await site.clock.run_until(lambda: self.nominated_for() != "", step_s=0.05)
        self.waits_for = self.nominated_for()
        (self.other,) = {*NODES} - {self.waits_for}
        await poll(lambda: site.process.state.shown.is_terminating(self.low[self.waits_for].metadata.uid))
        self.high = await site.pod("high")
        self.first = await self.filter()

    async def _run(self, node: str) -> Pod:
        site = self.site
        pod = await site.submit(f"low-{node}", memory_mib=8000, spec={"priority": 1})
        assert await site.choose(pod, node) == node
        assert await site.bind(pod, node) == ""
        await site.wait_bound(pod)
        await site.unlock(node)
        return await site.pod(pod.name)

    def nominated_for(self) -> str:
        nomination = self.site.process.state.nominations.find(self.high.metadata.uid)
        return nomination.node if nomination is not None else ""

    async def filter(self, *nodes: str) -> Any:
        return await self.site.filter(self.high, *(nodes or NODES))

    async def looks(self, *nodes: str) -> bool:
        """Ask once more, and tell whether that was decided about."""
        before = max((one.number for one in self.site.process.state.decisions), default=0)
        await self.filter(*nodes)
        return max(one.number for one in self.site.process.state.decisions) > before

    async def annotate(self, key: str, text: str) -> None:
        patch = {"metadata": {"annotations": {key: text}}}
        self.high = await self.site.client.patch(PODS, "high", patch, namespace=self.high.namespace)

    async def remove(self, node: str) -> None:
        await self.site.remove(self.low[node])


@pytest.fixture
async def scene(empty: Site) -> Scene:
    made = Scene(empty)
    await made.start()
    return made


async def test_a_nominated_pod_is_not_decided_about_again_while_nothing_has_changed(scene: Scene) -> None:
    assert not await scene.looks()


async def test_it_is_told_the_same_again(scene: Scene) -> None:
    assert await scene.filter() == scene.first


async def test_it_is_told_of_the_nodes_that_are_offered_now(scene: Scene) -> None:
    reply = await scene.filter("n2")
    assert set(reply["FailedAndUnresolvableNodes"]) == {"n2"}


async def test_the_order_of_the_offered_nodes_does_not_matter(scene: Scene) -> None:
    assert not await scene.looks(*reversed(NODES))


async def test_it_is_decided_about_again_after_a_moment(scene: Scene) -> None:
    await scene.site.clock.advance(REMEMBERED_S)
    assert await scene.looks()


async def test_it_is_decided_about_again_when_another_node_is_offered(scene: Scene) -> None:
    assert await scene.looks(*NODES, "n3")


async def test_it_gets_its_room_as_soon_as_its_victims_have_left(scene: Scene) -> None:
    await scene.remove(scene.waits_for)
    assert (await scene.filter())["NodeNames"] == [scene.waits_for]


async def test_it_is_decided_about_again_as_soon_as_it_is_woken(scene: Scene) -> None:
    await scene.remove(scene.other)
    await scene.annotate("gpuloom.io/woken", "now")
    assert (await scene.filter())["NodeNames"] == [scene.other]


async def test_it_is_decided_about_again_when_it_is_pointed_to_a_node(scene: Scene) -> None:
    """Two that come within a second are woken with the same time."""
    hint = {"status": {"nominatedNodeName": scene.other}}
    patched = scene.site.client.patch(PODS, "high", hint, namespace=scene.high.namespace, subresource="status")
    scene.high = await patched
    assert await scene.looks()


async def test_it_is_decided_about_again_when_it_asks_for_something_else(scene: Scene) -> None:
    await scene.annotate("nvidia.com/use-gputype", "A100")
    assert await scene.looks()


async def test_it_is_decided_about_again_when_its_containers_ask_for_something_else(scene: Scene) -> None:
    scene.high = replace_struct(scene.high, spec=replace_struct(scene.high.spec, containers=[]))
    assert (await scene.filter())["NodeNames"] == list(NODES)


async def test_what_is_written_on_it_about_its_nomination_changes_nothing(scene: Scene) -> None:
    await scene.annotate("gpuloom.io/nominated", "n1;1")
    assert not await scene.looks()


async def test_it_is_decided_about_again_when_its_nomination_is_over(scene: Scene) -> None:
    scene.site.process.state.nominations.end(scene.high.metadata.uid, "expired")
    assert await scene.looks()


async def test_it_is_told_nothing_of_before_by_a_process_that_is_not_in_charge(scene: Scene) -> None:
    scene.site.process.state.charge.obstacle = "another process is in charge"
    assert "another process" in (await scene.filter())["Error"]


async def test_it_is_decided_about_after_a_process_that_was_not_in_charge_told_it_nothing(scene: Scene) -> None:
    scene.site.process.state.charge.obstacle = "another process is in charge"
    await scene.filter()
    scene.site.process.state.charge.obstacle = ""
    assert await scene.looks()


async def test_a_pod_that_is_not_nominated_is_decided_about_each_time(scene: Scene) -> None:
    scene.high = await scene.site.submit("equal", memory_mib=8000, spec={"priority": 1})
    await scene.filter()
    assert await scene.looks()
