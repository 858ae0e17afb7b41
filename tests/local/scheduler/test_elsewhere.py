"""Pods that the offered nodes refuse while another takes them are pointed to that one (binding 4)."""

from typing import Any

import pytest
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import Site

from gpuloom.kube import NODES
from gpuloom.scheduler.pods.partlyoffered import LONGEST_PAUSE_S, MOST_REMEMBERED, PartlyOffered
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Pod

WOKEN = "gpuloom.io/woken"


@pytest.fixture
async def refused(site: Site) -> Pod:
    """A pod that is too large for what is left of n1; n2, n3 and n4 are empty, and not offered."""
    for name in ("n2", "n3", "n4"):
        await site.register(name)
    assert await site.choose(await site.submit("occupant", memory_mib=9000)) == "n1"
    return await site.submit(memory_mib=5000)


async def read_hint(site: Site, name: str = "p") -> str:
    """Return the node that kube-scheduler is to ask first."""
    url, headers = (
        f"{site.server.url}/api/v1/namespaces/default/pods/{name}",
        {"Authorization": f"Bearer {site.server.token}"},
    )
    async with site.session.get(url, headers=headers) as reply:
        hint: str = (await reply.json())["status"].get("nominatedNodeName", "")
    return hint


async def wait_woken(site: Site, pod: Pod, before: str = "") -> str:
    def woken() -> str:
        return site.process.state.shown.pods[pod.metadata.uid].annotations.get(WOKEN, "")

    await site.clock.run_until(lambda: woken() not in {"", before}, step_s=0.05)
    return woken()


async def stays_asleep(site: Site) -> None:
    await site.clock.advance(1)
    await let_answers_arrive()
    assert WOKEN not in (await site.pod()).annotations
    assert await read_hint(site) == ""


async def test_a_pod_is_woken_for_a_node_that_was_not_offered(site: Site, refused: Pod) -> None:
    assert await site.choose(refused, "n1") is None
    await wait_woken(site, refused)
    assert await read_hint(site) == "n2"


async def test_nodes_without_cards_are_not_counted_among_the_offered(site: Site, refused: Pod) -> None:
    assert await site.choose(refused, "n1", "cpu-1", "cpu-2", "cpu-3", "cpu-4") is None
    await wait_woken(site, refused)
    assert await read_hint(site) == "n2"


async def test_a_pod_whose_hint_could_not_be_written_is_woken_later(site: Site, refused: Pod) -> None:
    failing = site.fail("PATCH", "/pods/p/status$", status=500)
    assert await site.choose(refused, "n1") is None
    await wait_woken(site, refused)
    assert site.has_happened(failing)


async def test_a_pod_that_every_node_refuses_is_left_alone(site: Site, refused: Pod) -> None:
    large = await site.submit("large", memory_mib=20_000)
    assert await site.choose(large, "n1") is None
    await site.clock.advance(1)
    await let_answers_arrive()
    assert WOKEN not in (await site.pod("large")).annotations


async def test_a_pod_that_all_nodes_were_offered_for_is_left_alone(site: Site) -> None:
    pod = await site.submit(memory_mib=20_000)
    assert await site.choose(pod, "n1") is None
    await stays_asleep(site)


@pytest.mark.parametrize(
    "spec",
    [{"unschedulable": True}, {"taints": [{"key": "a", "effect": "NoSchedule"}]}],
    ids=["closed", "tainted"],
)
async def test_no_pod_is_pointed_to_a_node_that_would_not_take_it(site: Site, refused: Pod, spec: Any) -> None:
    for name in ("n2", "n3"):
        await site.wait_for_node(await site.client.patch(NODES, name, {"spec": spec}))
    assert await site.choose(refused, "n1") is None
    await wait_woken(site, refused)
    assert await read_hint(site) == "n4"


async def test_a_pod_that_is_refused_again_is_pointed_to_a_node_after_a_pause(site: Site, refused: Pod) -> None:
    assert await site.choose(refused, "n1") is None
    first = await wait_woken(site, refused)
    assert await site.choose(refused, "n1") is None
    began_s = site.clock.elapsed_s
    await wait_woken(site, refused, first)
    assert 0.8 <= site.clock.elapsed_s - began_s < 2


async def test_two_pods_are_pointed_to_two_nodes(site: Site, refused: Pod) -> None:
    other = await site.submit("other", memory_mib=5000)
    assert await site.choose(refused, "n1") is None
    assert await site.choose(other, "n1") is None
    await wait_woken(site, refused)
    await wait_woken(site, other)
    assert {await read_hint(site), await read_hint(site, "other")} == {"n2", "n3"}


async def test_a_pod_whose_node_was_taken_by_a_faster_one_is_pointed_to_the_next_soon(site: Site, refused: Pod) -> None:
    woken = ""
    for number, node in enumerate(("n2", "n3", "n4")):
        assert await site.choose(refused, "n1") is None
        began_s = site.clock.elapsed_s
        woken = await wait_woken(site, refused, woken)
        assert site.clock.elapsed_s - began_s < 1.5
        assert await read_hint(site) == node
        assert await site.choose(await site.submit(f"faster-{number}", memory_mib=9000), node) == node
        assert await site.choose(refused, node) is None


async def test_a_pod_that_found_a_node_meanwhile_is_left_alone(site: Site, refused: Pod) -> None:
    assert await site.choose(refused, "n1") is None
    assert await site.choose(refused, "n3") == "n3"
    await poll(lambda: refused.metadata.uid in site.process.state.shown.pods)
    await stays_asleep(site)


def test_pauses_double_up_to_a_minute() -> None:
    offered, now, pauses = PartlyOffered(), 0.0, []
    for _ in range(8):
        offered.note_pointed("a", "n2", now)
        offered.note_refused("a", NodeNames(b'["n1"]'), now)
        began = now
        while not offered.take_due(now):
            now += 0.5
        pauses.append(now - began)
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_a_pod_may_be_pointed_in_vain_for_days() -> None:
    offered = PartlyOffered()
    for number in range(3000):
        offered.note_pointed("a", "n2", number * LONGEST_PAUSE_S)
        offered.note_refused("a", NodeNames(b'["n1"]'), number * LONGEST_PAUSE_S)
    assert offered.take_due(3000 * LONGEST_PAUSE_S) == ["a"]


def test_of_very_many_pods_the_newest_are_remembered() -> None:
    offered = PartlyOffered()
    for number in range(MOST_REMEMBERED + 10):
        offered.note_refused(str(number), NodeNames(b'["n1"]'), 0)
    assert len(offered) == MOST_REMEMBERED
    assert str(MOST_REMEMBERED + 9) in offered.take_due(1)
