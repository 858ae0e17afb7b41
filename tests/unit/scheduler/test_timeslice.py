"""Long work leaves calls their turn."""

import asyncio
from collections.abc import Iterator

import pytest

from gpuloom.scheduler import timeslice
from gpuloom.scheduler.timeslice import TimeSlice


async def test_a_call_that_comes_during_a_slice_is_answered_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeslice, "SLICE_S", 0.0)
    done: list[str] = []
    calls: set[asyncio.Task[None]] = set()

    async def answer() -> None:
        done.append("answer")

    async def receive(arrived: asyncio.Event) -> None:
        await arrived.wait()
        calls.add(asyncio.create_task(answer()))

    def work(arrived: asyncio.Event) -> Iterator[None]:
        done.append("slice")
        arrived.set()
        yield
        done.append("next slice")

    arrived = asyncio.Event()
    receiver = asyncio.create_task(receive(arrived))
    await asyncio.sleep(0)
    time_slice = TimeSlice()
    for _ in work(arrived):
        await time_slice.yield_if_over()
    assert done == ["slice", "answer", "next slice"]
    await receiver
