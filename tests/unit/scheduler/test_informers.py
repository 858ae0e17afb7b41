"""Changes come in crowds: between them others have their turn."""

import asyncio
import json
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import web
from unit.kube.scripted import Answer, ScriptedServer, bad_pod, change, pod, pod_list, stream

from gpuloom.kube import Unreadable
from gpuloom.scheduler import timeslice
from gpuloom.scheduler.observer import NOBODY
from gpuloom.scheduler.watch.informers import Informers
from gpuloom.wire.objects import Pod

CROWD = 50
CHANGES = [change("MODIFIED", pod("p", 101 + number)) for number in range(CROWD)]


async def answer(request: web.Request) -> web.StreamResponse:
    """Lists are empty; the watch of pods tells of a crowd of changes in one piece."""
    if request.query.get("watch") != "true":
        return await pod_list()(request)
    crowd = b"".join(json.dumps(event).encode() + b"\n" for event in CHANGES)
    return await stream(*([crowd] if "pods" in request.path else []), hold=True)(request)


class Book:
    """Takes everything and says, of every change of a pod, how often others had run by then."""

    def __init__(self) -> None:
        self.turns = 0
        self.seen: list[int] = []
        self.all_seen = asyncio.Event()

    def __getattr__(self, _: str) -> Any:
        return lambda *_: None

    def apply(self, _: Pod) -> None:
        self.seen.append(self.turns)
        if len(self.seen) == CROWD:
            self.all_seen.set()

    async def count_turns(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)


async def test_others_run_between_two_changes_of_a_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeslice, "SLICE_S", 0.0)
    book: Any = Book()
    async with ScriptedServer(otherwise=answer) as server, server.client() as client, asyncio.timeout(60):
        informers = Informers(client, book, book, book, book, note_listed=lambda: None)
        tasks = [asyncio.create_task(one) for one in (informers.run(), book.count_turns())]
        await book.all_seen.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert len(set(book.seen)) == CROWD


class Noting:
    """Takes everything and notes by what name it was told of pods, nodes and quotas."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.wanted = asyncio.Event()

    def shorten(self, item: Any) -> Any:
        return item

    def __getattr__(self, name: str) -> Any:
        def note(*told: Any) -> None:
            each = [one for some in told for one in (some if isinstance(some, list) else [some])]
            self.told += [f"{name} {one.metadata.name}" for one in each if hasattr(one, "metadata")] or [name]
            if "apply last" in self.told:
                self.wanted.set()

        return note


def answering(plural: str, listed: Answer, *changes: object) -> Answer:
    """One kind has objects that cannot be read, the others have none."""

    async def give(request: web.Request) -> web.StreamResponse:
        mine = request.path.endswith(plural)
        if request.query.get("watch") == "true":
            return await stream(*(changes if mine else ()), hold=True)(request)
        return await (listed if mine else pod_list())(request)

    return give


async def watch(answer: Answer, pods: Any, quotas: Any, wanted: asyncio.Event, observer: Any = NOBODY) -> None:
    """Run informers until what is wanted was told, or they end."""
    other: Any = Noting()
    async with ScriptedServer(otherwise=answer) as server, server.client() as client, asyncio.timeout(60):
        informers = Informers(client, pods, other, quotas, other, note_listed=lambda: None, observer=observer)
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(informers.run()), asyncio.create_task(wanted.wait())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("plural", "told"),
    [
        ("/pods", ["begin_list", "take_unreadable bad", "end_list", "take_unreadable worse", "apply last"]),
        ("/resourcequotas", ["replace bad", "take_unreadable worse", "apply last"]),
    ],
)
async def test_what_cannot_be_read_is_told_in_lists_and_as_a_change(plural: str, told: list[str]) -> None:
    """trust T-11."""
    books: dict[str, Any] = {"/pods": Noting(), "/resourcequotas": Noting()}
    wrong: dict[str, Any] = {"spec": 5}
    listed = pod_list(bad_pod("bad") | wrong)
    lines = change("MODIFIED", bad_pod("worse", 101) | wrong), change("ADDED", pod("last", 102))
    await watch(answering(plural, listed, *lines), books["/pods"], books["/resourcequotas"], books[plural].wanted)
    assert [one for one in books[plural].told if one != "replace"] == told


class Failing(Noting):
    """Fails on what is listed, and on what cannot be read."""

    def take_listed(self, _: Pod) -> None:
        raise OverflowError("too large")

    def take_unreadable(self, _: Unreadable) -> None:
        raise OverflowError("too large")


OBSERVERS = pytest.mark.parametrize("observer", [NOBODY, Mock()], ids=["one by one", "all at once, for an observer"])


@OBSERVERS
async def test_a_list_begins_before_it_is_asked_for(observer: Any) -> None:
    """What comes to be known while it is read is younger, and not gone because it does not stand in it."""
    pods: Any = Noting()
    told: list[str] = []

    async def listed(request: web.Request) -> web.StreamResponse:
        told.extend(pods.told)
        return await pod_list(pod("good", 1))(request)

    await watch(answering("/pods", listed, change("ADDED", pod("last", 102))), pods, Noting(), pods.wanted, observer)
    assert told == ["begin_list"]


@OBSERVERS
async def test_our_own_fault_over_an_object_concerns_that_object_alone(observer: Any) -> None:
    pods: Any = Failing()
    listed = pod_list(pod("good", 1), bad_pod("bad"))
    lines = change("MODIFIED", bad_pod("worse", 101)), change("ADDED", pod("last", 102))
    await watch(answering("/pods", listed, *lines), pods, Noting(), pods.wanted, observer)
    assert pods.told == ["begin_list", "end_list", "apply last"]
