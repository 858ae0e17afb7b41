"""Ask all monitors in turns, again and again: few at once, few a second, and after kube-scheduler's calls."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator

import structlog

from gpuloom.kube import ApiError
from gpuloom.web.monitors.asking import MonitorAddress, MonitorError, MonitorSource
from gpuloom.web.monitors.book import PodOnCard
from gpuloom.web.pacing import Pace
from gpuloom.web.rounds import try_round
from gpuloom.web.views.source import Source
from gpuloom.wire.monitors import MonitorReport

AT_ONCE = 16
MOST_A_SECOND = 20
"""Each costs some milliseconds of processor time: of 5,000 nodes each is asked every 250 seconds."""

_LEAST_REST_S = 0.1

_log = structlog.get_logger(__name__)


class MonitorRounds:
    """Fills the book of a source; a scheduler that is not in charge asks nobody."""

    def __init__(
        self,
        source: Source,
        monitors: MonitorSource,
        pace: Pace,
        interval_s: float,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._source = source
        self._monitors = monitors
        self._pace = pace
        self._interval_s = interval_s
        self._sleep = sleep
        self._failures: list[tuple[MonitorAddress, MonitorError]] = []

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            began = time.monotonic()
            if not await try_round(self.make_round(), "monitors"):
                self._source.book.why_not = "the last round of monitors failed, by a fault of gpuloom: see its log"
            await self._sleep(max(self._interval_s - (time.monotonic() - began), _LEAST_REST_S))

    async def make_round(self) -> None:
        """Ask every monitor once."""
        book = self._source.book
        found: list[MonitorAddress] = []
        self._failures, failed_before = [], bool(self._failures)
        if self._source.state.charge.is_ours:
            try:
                found = await self._find()
                if not found:
                    book.why_not = "no node with cards has a monitor of gpuloom"
                elif not failed_before:
                    book.why_not = ""
            except ApiError as error:
                book.why_not = f"monitors cannot be looked for: {error}"
        book.stale_s = max(3 * self._interval_s, 2 * len(found) / MOST_A_SECOND)
        await self._ask_all(found)
        if self._failures:
            monitor, why = self._failures[0]
            book.why_not = f"{len(self._failures):,} of {len(found):,} monitors do not answer: {why}"
            if not failed_before:
                _log.warning("monitors do not answer", why=book.why_not, pod=monitor.pod)
        elif found:
            # Not before: what is said would come and go with each round.
            book.why_not = ""
        book.tidy(set(self._source.state.cluster.nodes))

    async def _find(self) -> list[MonitorAddress]:
        """Return one for each node that has cards."""
        by_node = {monitor.node: monitor for monitor in await self._monitors.find()}
        return [monitor for node, monitor in by_node.items() if self._source.state.cluster.has(node)]

    async def _ask_all(self, monitors: list[MonitorAddress]) -> None:
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask(monitor: MonitorAddress) -> None:
            try:
                report = await self._monitors.ask(monitor)
                await self._pace.finish(self._note(monitor.node, report))
            except MonitorError as error:
                self._failures.append((monitor, error))
            finally:
                turns.release()

        async with asyncio.TaskGroup() as group:
            for monitor in monitors:
                await turns.acquire()
                group.create_task(ask(monitor))
                await self._sleep(1 / MOST_A_SECOND)

    def _note(self, node: str, report: MonitorReport) -> Generator[None, None, None]:
        yield
        self._source.book.note(node, report, self._source.registered(node), set(self._list_held(node)))

    def _list_held(self, node: str) -> Generator[PodOnCard, None, None]:
        for held in self._source.holders(node):
            for uuid in self._source.cards_of(held):
                yield held.namespace, held.name, uuid
