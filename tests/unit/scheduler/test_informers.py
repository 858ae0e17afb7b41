"""Changes come in crowds: between them others have their turn."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from unit.kube.scripted import Answer, ScriptedServer, bad_pod, change, pod, pod_list, stream

from gpuloom.scheduler import timeslice
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

    def __getattr__(self, name: str) -> Any:
        def note(*told: Any) -> Any:
            self.told += [f"{name} {one.metadata.name}" for one in told if hasattr(one, "metadata")] or [name]
            if "apply last" in self.told:
                self.wanted.set()
            return told[0] if name == "stand_in" else None

        return note


def answering(plural: str, listed: Answer, *changes: object) -> Answer:
    """One kind has objects that cannot be read, the others have none."""

    async def give(request: web.Request) -> web.StreamResponse:
        mine = request.path.endswith(plural)
        if request.query.get("watch") == "true":
            return await stream(*(changes if mine else ()), hold=True)(request)
        return await (listed if mine else pod_list())(request)

    return give


@pytest.mark.parametrize(
    ("plural", "told"),
    [
        ("/pods", ["begin_list", "take_unreadable bad", "end_list", "take_unreadable worse", "apply last"]),
        ("/resourcequotas", ["stand_in bad", "take_unreadable worse", "apply last"]),
    ],
)
async def test_what_cannot_be_read_is_told_in_lists_and_as_a_change(plural: str, told: list[str]) -> None:
    """trust T-11."""
    books: dict[str, Any] = {"/pods": Noting(), "/resourcequotas": Noting()}
    wrong: dict[str, Any] = {"spec": 5}
    listed = pod_list(bad_pod("bad") | wrong)
    lines = change("MODIFIED", bad_pod("worse", 101) | wrong), change("ADDED", pod("last", 102))
    other: Any = Noting()
    server = ScriptedServer(otherwise=answering(plural, listed, *lines))
    async with server, server.client() as client, asyncio.timeout(60):
        informers = Informers(client, books["/pods"], other, books["/resourcequotas"], other, note_listed=lambda: None)
        task = asyncio.create_task(informers.run())
        await books[plural].wanted.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [one for one in books[plural].told if one != "replace"] == told
