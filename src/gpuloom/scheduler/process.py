"""The scheduler process: its parts put together, started and stopped."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, Self

import structlog

from gpuloom.kube import EventRecorder, KubeClient
from gpuloom.scheduler.binding import Binder
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.filtering import Filterer
from gpuloom.scheduler.locks import NodeLocks
from gpuloom.scheduler.nodes import NodeBook
from gpuloom.scheduler.pods import PodBook
from gpuloom.scheduler.server import Routes, listen
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.upkeep import Upkeep
from gpuloom.scheduler.waking import Waker
from gpuloom.scheduler.watching import Watches

_log = structlog.get_logger(__name__)


class SchedulerProcess:
    """A running scheduler; an async context manager. ``url`` says where it serves."""

    def __init__(self, settings: SchedulerSettings, client: KubeClient, *, clocks: Clocks | None = None) -> None:
        self.settings = settings
        self.state = SchedulerState(settings)
        self.url = ""
        self._client = client
        self._clocks = clocks or Clocks()
        self._synced = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start serving and watching.

        Raises ServerError when the address or the certificate cannot be used; nothing is left running then.
        """
        async with AsyncExitStack() as stack:
            recorder = await stack.enter_async_context(EventRecorder(self._client, self.settings.scheduler_name))
            nodes = NodeBook(self.state)
            locks = NodeLocks(self._client, self.settings, self._clocks)
            watches = Watches(
                self._client, PodBook(self.state, self._clocks.monotonic), nodes, locks, synced=self._synced
            )
            runner, self.url = await listen(self._routes(recorder, locks).application(), self.settings)
            stack.push_async_callback(runner.cleanup)
            stack.push_async_callback(self._stop_tasks)
            self._tasks = [asyncio.create_task(run) for run in self._flows(watches, nodes)]
            self._stack = stack.pop_all()
        _log.info("scheduler started", url=self.url, scheduler=self.settings.scheduler_name)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def wait_synced(self) -> None:
        """Wait until the first lists of pods and nodes are complete."""
        await self._synced.wait()

    async def wait_failed(self) -> None:
        """Wait until one of the process's tasks ends, which none should, and raise what ended it."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    def _routes(self, recorder: EventRecorder, locks: NodeLocks) -> Routes:
        return Routes(
            settings=self.settings,
            filterer=Filterer(self.state, recorder, self._clocks),
            binder=Binder(self._client, self.state, locks, recorder, self._clocks),
            wait_synced=self.wait_synced,
            is_ready=self._synced.is_set,
        )

    def _flows(self, watches: Watches, nodes: NodeBook) -> tuple[Coroutine[Any, Any, None], ...]:
        return (
            watches.run(),
            self._pass_over_nodes(nodes),
            Waker(self._client, self.state, self._clocks).run(),
            Upkeep(self._client, self.state, self._clocks).run(),
        )

    async def _pass_over_nodes(self, nodes: NodeBook) -> None:
        while True:
            await self._clocks.sleep(self.settings.node_pass_interval_s)
            nodes.run_pass()

    async def _stop_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
