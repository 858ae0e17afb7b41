"""Whoever asks for the same with the same rights shares the work: pages are made once for all of them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gpuloom.web.dashboard.asked import Asked
from gpuloom.web.dashboard.regions import DashboardPage


@dataclass(slots=True)
class _Making:
    """How often a page was begun, and the last one that was made; kept for as long as somebody waits for it."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    begun: int = 0
    made: int = 0
    page: DashboardPage | None = None


class Sharing:
    """Makes pages. Nobody gets one that was begun before they asked: while one is made, all others wait for the next.

    So however many people ask at one time, two are made.
    """

    def __init__(self, make: Callable[[Asked], Awaitable[DashboardPage]]) -> None:
        self._make = make
        self._makings: dict[Asked, _Making] = {}

    async def make(self, asked: Asked) -> DashboardPage:
        """Return the page as it is now; raises what making it raises."""
        making = self._makings.setdefault(asked, _Making())
        wanted = making.begun + 1
        making.waiting += 1
        try:
            async with making.turn:
                return await self._take(asked, making, wanted)
        finally:
            making.waiting -= 1
            if not making.waiting:
                del self._makings[asked]

    async def _take(self, asked: Asked, making: _Making, wanted: int) -> DashboardPage:
        if making.page is not None and making.made >= wanted:
            return making.page
        making.begun += 1
        number = making.begun
        page = await self._make(asked)
        making.made, making.page = number, page
        return page
