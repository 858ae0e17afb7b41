"""Changes come in crowds: between them others have their turn."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from unit.kube.scripted import ScriptedServer, change, pod, pod_list, stream

from gpuloom.scheduler import pages
from gpuloom.scheduler.watching import Watches
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
    monkeypatch.setattr(pages, "PAGE_S", 0.0)
    book: Any = Book()
    async with ScriptedServer(otherwise=answer) as server, server.client() as client, asyncio.timeout(10):
        watches = Watches(client, book, book, book, book, note_listed=lambda: None)
        tasks = [asyncio.create_task(one) for one in (watches.run(), book.count_turns())]
        await book.all_seen.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert len(set(book.seen)) == CROWD
