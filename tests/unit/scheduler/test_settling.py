"""Work that goes on when nobody waits for it any more."""

import asyncio

import pytest

from gpuloom.scheduler import settling
from gpuloom.scheduler.settling import SettledWork


async def write(answer: asyncio.Event, written: list[str]) -> None:
    await answer.wait()
    written.append("written")


async def begin_and_cancel(settled: SettledWork[None], answer: asyncio.Event, written: list[str]) -> None:
    waiting = asyncio.create_task(settled.run(write(answer, written), "write"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_what_nobody_waits_for_is_settled_at_the_end() -> None:
    settled, answer, written = SettledWork[None](), asyncio.Event(), list[str]()
    await begin_and_cancel(settled, answer, written)
    asyncio.get_running_loop().call_later(0.01, answer.set)
    await settled.close()
    assert written == ["written"]


async def test_what_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "CLOSING_S", 0.01)
    settled, written = SettledWork[None](), list[str]()
    await begin_and_cancel(settled, asyncio.Event(), written)
    async with asyncio.timeout(5):
        await settled.close()
    assert written == []


async def test_where_nothing_was_begun_nothing_is_waited_for() -> None:
    await SettledWork[None]().close()
