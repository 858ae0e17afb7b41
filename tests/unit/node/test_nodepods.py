"""The pods of a node as the monitor and the device plugin know them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from unit.kube.scripted import Answer, ScriptedServer, bad_pod, bookmark, change, failure, pod, pod_list, stream

from gpuloom.kube.resources import PODS
from gpuloom.node.nodepods import NodePods
from gpuloom.wire.objects import ObjectMeta, Pod

WRITTEN = Pod(ObjectMeta("a", "ns", "uid-a", "105"))
SOON_S, LONG_S = 0.05, 10.0


@asynccontextmanager
async def following(*answers: Answer) -> AsyncIterator[tuple[NodePods[Pod], ScriptedServer]]:
    async with ScriptedServer(*answers) as server, server.client() as client, asyncio.timeout(60):
        pods = NodePods(client, PODS, "n1")
        task = asyncio.create_task(pods.run())
        yield pods, server
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def stream_after(gate: asyncio.Event, *lines: object) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        await gate.wait()
        return await stream(*lines)(request)

    return answer


async def test_a_pod_that_cannot_be_read_any_more_stays_as_it_was_known() -> None:
    """trust T-11: a list in which it stands unreadable does not say that it is gone."""
    answers = pod_list(pod("a"), pod("b")), failure(410), pod_list(bad_pod("a") | {"spec": 5})
    async with following(*answers) as (pods, server):
        await server.held.wait()
    assert [one.name for one in pods.all] == ["a"]


async def test_a_pod_that_could_never_be_read_is_there() -> None:
    """The monitor deletes nothing of it."""
    async with following(pod_list(pod("a"), bad_pod("b"))) as (pods, server):
        await server.held.wait()
    assert {*pods.uids} == {"uid-a", "uid-b"}


async def test_pods_are_all_told_when_they_are_listed_and_can_be_read() -> None:
    async with following(pod_list(pod("a"))) as (pods, server):
        assert not pods.are_all_told
        await server.held.wait()
    assert pods.are_all_told


@pytest.mark.parametrize(
    "answers",
    [
        (pod_list(pod("a"), bad_pod("b")),),
        (pod_list(pod("a")), stream(change("ADDED", bad_pod("b", 101)))),
        (pod_list(pod("a"), pod("b")), failure(410), pod_list(pod("a"), bad_pod("b"))),
    ],
    ids=["listed", "added", "listed again"],
)
async def test_pods_are_not_all_told_while_one_cannot_be_read(answers: tuple[Answer, ...]) -> None:
    async with following(*answers) as (pods, server):
        await server.held.wait()
    assert not pods.are_all_told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "answers"),
    [
        ([change("MODIFIED", pod("a", 105))], []),
        ([change("MODIFIED", pod("a", 105)), change("MODIFIED", pod("a", 106))], []),
        ([change("DELETED", pod("a", 107))], []),
        ([], [failure(410), pod_list(pod("a", 105))]),
        ([], [failure(410), pod_list(pod("a", 109))]),
    ],
    ids=["changed", "and again", "deleted", "listed", "changed and listed"],
)
async def test_a_version_is_shown_by_its_event_or_what_follows_it(lines: list[object], answers: list[Answer]) -> None:
    gate = asyncio.Event()
    async with following(pod_list(pod("a")), stream_after(gate, *lines), *answers) as (pods, server):
        await server.wait_for_requests(2)
        shown = asyncio.create_task(pods.wait_shown(WRITTEN, LONG_S))
        await asyncio.sleep(0)
        assert not pods.are_all_told
        gate.set()
        assert await shown
        assert pods.are_all_told


async def test_a_version_that_came_before_its_reply_is_shown() -> None:
    answers = pod_list(pod("a")), stream(change("MODIFIED", pod("a", 105)), change("MODIFIED", pod("a", 106)))
    async with following(*answers) as (pods, server):
        await server.held.wait()
        assert await pods.wait_shown(WRITTEN, SOON_S)


async def test_a_version_that_does_not_come_is_not_shown_and_awaited_on() -> None:
    answers = pod_list(pod("a")), stream(change("MODIFIED", pod("b", 104)), bookmark(104), hold=True)
    async with following(*answers) as (pods, server):
        await server.wait_for_requests(2)
        assert not await pods.wait_shown(WRITTEN, SOON_S)
        assert not pods.are_all_told


@pytest.mark.parametrize(("version", "is_shown"), [(104, False), (105, True), (109, True)])
async def test_a_version_that_is_awaited_during_a_list_is_shown_by_it_or_a_later_one(
    version: int, *, is_shown: bool
) -> None:
    """The kubelet may have changed the pod before the API server answers the list."""
    gate = asyncio.Event()

    async def list_late(request: web.Request) -> web.StreamResponse:
        await gate.wait()
        return await pod_list(pod("a", version))(request)

    async with following(pod_list(pod("a")), failure(410), list_late) as (pods, server):
        await server.wait_for_requests(3)
        shown = asyncio.create_task(pods.wait_shown(WRITTEN, LONG_S if is_shown else SOON_S))
        await asyncio.sleep(0)
        gate.set()
        assert await shown is is_shown
        await server.held.wait()
        assert pods.are_all_told is is_shown
