"""Work that a reply does not wait for."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest

from gpuloom.scheduler import timeslice
from gpuloom.scheduler.filter.deferred import MOST_WAITING, DeferredWork, ImmediateWork


def note(done: list[str], *words: str) -> Iterator[None]:
    for word in words:
        done.append(word)
        yield


async def run_until(work: DeferredWork, done: list[str], count: int) -> None:
    task = asyncio.create_task(work.run())
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(done) == count
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_nothing_is_done_before_the_reply() -> None:
    done: list[str] = []
    DeferredWork().add(note(done, "a"))
    assert done == []


async def test_pieces_are_done_in_the_order_in_which_they_came() -> None:
    work, done = DeferredWork(), list[str]()
    work.add(note(done, "a1", "a2"))
    work.add(note(done, "b"))
    await run_until(work, done, 3)
    assert done == ["a1", "a2", "b"]


async def test_others_run_between_two_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeslice, "SLICE_S", 0.0)
    work, done = DeferredWork(), list[str]()
    work.add(note(done, *"abc"))
    task = asyncio.create_task(work.run())
    seen = []
    for _ in range(5 * timeslice.TURNS):
        await asyncio.sleep(0)
        seen.append(len(done))
    task.cancel()
    assert {1, 2, 3} <= set(seen)


async def test_what_is_too_much_is_refused() -> None:
    work = DeferredWork()
    taken = [work.add(note([], "a")) for _ in range(MOST_WAITING + 1)]
    assert taken == [True] * MOST_WAITING + [False]


async def test_for_a_recording_all_is_done_at_once() -> None:
    done: list[str] = []
    ImmediateWork().add(note(done, "a", "b"))
    assert done == ["a", "b"]


def fail() -> Iterator[None]:
    yield
    raise OverflowError("too large")


async def test_work_that_fails_is_told_of_and_ends_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    work, done = DeferredWork(), list[str]()
    work.add(fail())
    work.add(note(done, "a"))
    await run_until(work, done, 1)
    assert "too large" in "".join(capsys.readouterr())
