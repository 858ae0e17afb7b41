"""Time that moves only when a test moves it."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from gpuloom.scheduler.clocks import Clocks

_T = TypeVar("_T")

DEADLINE_S = 60.0
POLL_S = 0.005
START = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


class ManualClock:
    """Both clocks of a process, and everybody who sleeps by them."""

    def __init__(self, start: datetime = START) -> None:
        self.start = start
        self.elapsed_s = 0.0
        self._numbers = itertools.count()
        self._sleepers: dict[int, tuple[float, asyncio.Event]] = {}

    @property
    def clocks(self) -> Clocks:
        return Clocks(monotonic=self.monotonic, now=self.now, sleep=self.sleep)

    def monotonic(self) -> float:
        return 1000.0 + self.elapsed_s

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.elapsed_s)

    async def sleep(self, seconds: float) -> None:
        number, woken = next(self._numbers), asyncio.Event()
        self._sleepers[number] = (self.elapsed_s + seconds, woken)
        try:
            await woken.wait()
        finally:
            del self._sleepers[number]

    async def advance(self, seconds: float) -> None:
        """Let time pass; whoever wakes on the way may go on and sleep again before it passes further."""
        end = self.elapsed_s + seconds
        await self._let_others_run()
        while due := [when for when, woken in self._sleepers.values() if when <= end and not woken.is_set()]:
            self.elapsed_s = max(self.elapsed_s, min(due))
            for when, woken in list(self._sleepers.values()):
                if when <= self.elapsed_s:
                    woken.set()
            await self._let_others_run()
        self.elapsed_s = end

    @staticmethod
    async def _let_others_run() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def run_until(self, condition: Callable[[], bool], *, step_s: float = 0.5) -> None:
        """Let time pass, and real answers arrive, until something is so; TimeoutError when it never is."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await self.advance(step_s)
                await asyncio.sleep(POLL_S)

    async def run_until_done(self, task: "asyncio.Task[_T]", *, step_s: float = 0.5) -> _T:
        """Let time pass until a call has its answer."""
        await self.run_until(task.done, step_s=step_s)
        return task.result()


async def poll(condition: Callable[[], bool]) -> None:
    """Wait until something is so without letting time pass; TimeoutError when it never is."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another process's code
            await asyncio.sleep(POLL_S)


async def poll_answer(ask: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Wait as :func:`poll` does for something that is to be asked for."""
    async with asyncio.timeout(DEADLINE_S):
        while not await ask():  # noqa: ASYNC110 - as above
            await asyncio.sleep(POLL_S)


async def let_answers_arrive() -> None:
    """Give everything that is under way on loopback the chance to arrive, for statements that nothing happens."""
    for _ in range(20):
        await asyncio.sleep(POLL_S)
