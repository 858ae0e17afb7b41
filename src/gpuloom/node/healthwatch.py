"""Watch the driver for errors and keep the list of cards up to date (device plugin 7).

:mod:`gpuloom.node.health` decides which cards are sick.
"""

import asyncio
import time
from collections.abc import Callable

import structlog

from gpuloom.node.clock import Sleep
from gpuloom.node.errors import CardReadError, WatchLostError
from gpuloom.node.health import HealthBook, HealthSettings
from gpuloom.node.inventory import CardInventory
from gpuloom.node.nvml import Coverage, Nvml

PERIOD_S = 5.0
_ERRORS_BEFORE_NEW_WATCH = 3
_MISSES_BEFORE_SICK = 3
_log = structlog.get_logger(__name__)


class HealthWatch:
    """Follows one node's cards until cancelled."""

    def __init__(
        self,
        nvml: Nvml,
        inventory: CardInventory,
        book: HealthBook,
        settings: HealthSettings,
        *,
        sleep: Sleep = asyncio.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nvml = nvml
        self._inventory = inventory
        self._book = book
        self._settings = settings
        self._sleep = sleep
        self._now = now
        self._errors = 0
        self._misses = 0
        self._must_open = True
        self._watched: set[str] = set()

    async def run(self) -> None:
        """Look after the cards again and again."""
        while True:
            await self.look()

    async def look(self) -> None:
        """Wait for an error, a few seconds at most, let cards recover, and read the cards again."""
        try:
            await self._wait()
            self._errors = 0
        except CardReadError as error:
            self._take_error(error)
            await self._sleep(PERIOD_S)
        await self._recover()
        await self._refresh()

    async def _wait(self) -> None:
        if not self._settings.is_watched:
            await self._sleep(PERIOD_S)
            return
        if self._must_open:
            await self._open()
        try:
            event = await self._nvml.wait_for_event()
        except WatchLostError as error:
            # Reading the cards finds the lost one.
            _log.warning("errors of all cards are asked for afresh", error=str(error))
            self._must_open = True
            return
        if event:
            self._book.note_event(event, self._inventory.targets, self._now())

    async def _open(self) -> None:
        """Ask for the errors of all cards; one that is lost is not sick for that, it is asked for when it is back."""
        # If this fails, the old watch may be gone as well.
        self._must_open = True
        coverage = await self._nvml.watch_events()
        self._must_open = False
        self._watched = {uuid for uuid, answer in coverage.items() if answer is not Coverage.FAILED}
        answers = self._inventory.answers
        self._book.note_coverage(
            {uuid: answer for uuid, answer in coverage.items() if answers.get(uuid, True)}, self._now()
        )

    def _take_error(self, error: CardReadError) -> None:
        """Record that the driver failed: without it, no card counts as healthy."""
        self._errors += 1
        self._must_open = self._must_open or self._errors >= _ERRORS_BEFORE_NEW_WATCH
        _log.warning("the driver does not answer, all cards are unhealthy", error=str(error), retry_s=PERIOD_S)
        self._book.note_driver(self._inventory.targets, str(error), self._now())

    async def _recover(self) -> None:
        if not self._find_due():
            return
        try:
            # A card must also prove that its errors are reported.
            if self._settings.is_watched:
                await self._open()
        except CardReadError as error:
            self._take_error(error)
        for uuid in self._find_due():
            await self._try_card(uuid)

    def _find_due(self) -> tuple[str, ...]:
        return self._book.find_due(self._now(), is_driver_well=not self._errors)

    async def _try_card(self, uuid: str) -> None:
        try:
            await self._nvml.probe(uuid)
        except CardReadError as error:
            self._book.postpone(uuid, str(error), self._now())
        else:
            self._book.recover(uuid)

    async def _refresh(self) -> None:
        try:
            await self._inventory.refresh()
            self._misses = 0
        except CardReadError as error:
            self._misses += 1
            # Reading fails for a moment while a driver is busy; until then, what is known of the cards stays.
            if self._misses >= _MISSES_BEFORE_SICK:
                self._take_error(error)
            await self._inventory.apply_health()
        else:
            self._follow_cards()

    def _follow_cards(self) -> None:
        """Forget cards that are gone for good, and ask for the errors of those that are new or back."""
        answers = self._inventory.answers
        self._book.forget_others({*answers, *(target.uuid for target in self._inventory.targets)})
        answering = {uuid for uuid, answered in answers.items() if answered}
        self._watched &= answering
        # A sick card is asked for when it is tried.
        if answering.difference(self._watched, self._book.sick):
            self._must_open = True
