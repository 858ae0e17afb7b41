"""Fair queues for few seats, as API Priority and Fairness has them: for slow questions and answers (trust T-09)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """How many questions are asked at a time, and how many may be asked or wait: of all askers, and of each."""

    at_once: int
    most: int
    most_of_one: int


class CrowdedError(Exception):
    """Too many wait already."""


class Turns:
    """Gives turns in the order of asking: few at a time, few who wait, and of them few of one asker."""

    def __init__(self, limits: TurnLimits) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(limits.at_once)
        self._underway: Counter[str] = Counter()

    @asynccontextmanager
    async def take(self, asker: str) -> AsyncIterator[None]:
        """Wait for a turn and keep it.

        Raises CrowdedError.
        """
        if self._underway[asker] >= self._limits.most_of_one or self._underway.total() >= self._limits.most:
            raise CrowdedError
        self._underway[asker] += 1
        try:
            async with self._free:
                yield
        finally:
            self._underway[asker] -= 1
            if not self._underway[asker]:
                del self._underway[asker]


@dataclass(slots=True)
class _Own:
    """The turns of one asker, and how many of his questions have one or wait."""

    free: asyncio.Semaphore
    questions: int = 0


class FairTurns:
    """Gives each asker few turns at a time: who asks more waits for his own, and keeps nobody else waiting.

    As many may wait as the listener takes connections.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._own: dict[Hashable, _Own] = {}

    @asynccontextmanager
    async def take(self, asker: Hashable) -> AsyncIterator[None]:
        """Wait for a turn and keep it."""
        own = self._own.setdefault(asker, _Own(asyncio.Semaphore(self._at_once)))
        own.questions += 1
        try:
            async with own.free:
                yield
        finally:
            own.questions -= 1
            if not own.questions:
                del self._own[asker]
