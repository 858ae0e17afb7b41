"""After the fact: did the kubelet give the share to the pod that it was meant for?"""

import asyncio

import msgspec
import pytest

from gpuloom.kube.recorder import EventRecorder
from gpuloom.kube.resources import EVENTS, PODS
from gpuloom.node.errors import KubeletError
from gpuloom.node.podresources import AllocationCheck, read_holders


@pytest.fixture
async def events(site):
    async with EventRecorder(site.client, "test") as recorder:
        yield recorder


@pytest.fixture
async def check(site, events):
    async def do_not_wait(seconds):
        del seconds
        await asyncio.sleep(0.01)

    check = AllocationCheck(site.settings, site.client, events, sleep=do_not_wait)
    yield check
    await check.close()


@pytest.fixture
async def running(site):
    """A pod with one share that the kubelet serves."""
    pod = await site.create_pod("p")
    await site.bind(pod, f"{site.machine.gpus[0].uuid},NVIDIA,1000,10:;")
    return await site.wait_for_phase("p", "Running")


async def finish(check):
    await asyncio.gather(*check._tasks)


async def test_the_kubelet_tells_which_pod_holds_an_id(site, running):
    (held,) = site.kubelet.held_by(running.metadata.uid)
    assert await read_holders(site.settings) == {held: {("default", "p")}}


async def test_a_share_in_the_right_hands_is_no_finding(site, running, check):
    check.begin(running, [*site.kubelet.held_by(running.metadata.uid)])
    await finish(check)
    assert check.findings == 0


async def test_a_share_in_other_hands_is_an_event_of_its_pod(site, running, check, events):
    other = await site.create_pod("other", count=0)
    check.begin(other, [*site.kubelet.held_by(running.metadata.uid)])
    await finish(check)
    await events.flush()
    found, _ = await site.client.list_all(EVENTS, namespace="default")
    messages = [event.message for event in found if event.involved_object.uid == other.metadata.uid]
    assert (check.findings, messages) == (
        1,
        ["the kubelet gave this pod's share of a card to default/p: delete both pods"],
    )
    for event in found:
        await site.client.delete(EVENTS, event.name, namespace="default")


async def test_whoever_lost_a_share_is_not_told_the_name_of_anothers_pod(site, running, check, events, monkeypatch):
    said = []
    monkeypatch.setattr(events, "record", lambda *event: said.append(event[-1]))
    lost = msgspec.structs.replace(running, metadata=msgspec.structs.replace(running.metadata, namespace="mine"))
    monkeypatch.setattr(site.client, "get", lambda *_, **__: asyncio.sleep(0, lost))
    check.begin(lost, [*site.kubelet.held_by(running.metadata.uid)])
    await finish(check)
    assert [text.partition(" (")[0] for text in said] == [
        "the kubelet gave this pod's share of a card to a pod of another namespace: delete both pods"
    ]


async def test_ids_of_a_pod_that_has_left_may_be_anothers(site, running, check):
    left = await site.create_pod("left", count=0)
    await site.client.delete(PODS, "left", namespace="default")
    check.begin(left, [*site.kubelet.held_by(running.metadata.uid)])
    await finish(check)
    assert check.findings == 0


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_ids_of_a_pod_that_has_ended_may_be_anothers(site, running, check, phase):
    ended = await site.create_pod("ended", count=0)
    await site.client.patch(PODS, "ended", {"status": {"phase": phase}}, namespace="default", subresource="status")
    check.begin(ended, [*site.kubelet.held_by(running.metadata.uid)])
    await finish(check)
    assert check.findings == 0


async def test_a_pod_that_has_the_name_of_one_that_left_is_not_taken_for_it(site, running, check):
    left = await site.create_pod("left", count=0)
    await site.client.delete(PODS, "left", namespace="default")
    await site.create_pod("left", count=0)
    check.begin(left, [*site.kubelet.held_by(running.metadata.uid)])
    await finish(check)
    assert check.findings == 0


async def test_ids_of_which_the_kubelet_did_not_hear_may_be_anothers_once_it_was_restarted(site, running, check):
    asked_again = await site.create_pod("again", count=0)
    check.begin(asked_again, [*site.kubelet.held_by(running.metadata.uid)])
    tasks = [*check._tasks]
    check.drop()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert check.findings == 0


async def test_ids_that_nobody_holds_are_no_finding(running, check):
    check.begin(running, ["GPU-nobody-0"])
    await finish(check)
    assert check.findings == 0


async def test_a_kubelet_that_does_not_tell_is_no_finding(site, running, check):
    site.settings.pod_resources_socket.unlink()
    check.begin(running, ["GPU-nobody-0"])
    await finish(check)
    assert check.findings == 0


async def test_a_kubelet_that_does_not_tell_is_named(site):
    site.settings.pod_resources_socket.unlink()
    with pytest.raises(KubeletError, match=r"pod-resources/kubelet\.sock does not tell who holds devices"):
        await read_holders(site.settings)


async def test_too_many_checks_are_dropped_and_counted(running, check):
    for _ in range(101):
        check.begin(running, ["GPU-nobody-0"])
    assert check.dropped == 1
