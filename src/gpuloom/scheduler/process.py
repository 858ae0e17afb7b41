"""The scheduler process: its parts started and stopped in order."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

import structlog

from gpuloom.kube import EventRecorder, KubeClient
from gpuloom.scheduler.bind.nodelock.locks import NodeLocks
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.http.server import Certificates, Urls, open_certificates, serve
from gpuloom.scheduler.observer import NOBODY, ProcessObserver
from gpuloom.scheduler.parts import Parts
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.serving.callers import Callers
from gpuloom.serving.presented import Presented

_log = structlog.get_logger(__name__)


class SchedulerProcess:
    """A running scheduler; an async context manager. ``urls`` says where it serves."""

    def __init__(
        self,
        settings: SchedulerSettings,
        client: KubeClient,
        *,
        clocks: Clocks | None = None,
        recorder: EventRecorder | None = None,
        make_observer: Callable[[SchedulerState], ProcessObserver] = (lambda _: NOBODY),
    ) -> None:
        self.settings = settings
        self.urls = Urls()
        self.certificates: Certificates | None = None
        self._clocks = clocks or Clocks()
        self._parts = Parts(settings, client, self._clocks, recorder, make_observer)
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        """Where the main port serves."""
        return self.urls.main

    @property
    def parts(self) -> Parts:
        """The parts, for reading."""
        return self._parts

    @property
    def state(self) -> SchedulerState:
        """What the process knows, for reading."""
        return self._parts.state

    @property
    def locks(self) -> NodeLocks:
        """The node locks, for reading."""
        return self._parts.locks

    async def __aenter__(self) -> Self:
        """Start serving and watching.

        Raises CannotServeError when an address or the certificate cannot be used; nothing is left running then.
        """
        parts = self._parts
        async with AsyncExitStack() as stack:
            certificates = self.certificates = await open_certificates(self.settings, parts.client, self._clocks)
            presented = certificates.presented if certificates else None
            await stack.enter_async_context(parts.recorder)
            stack.push_async_callback(self._stop_tasks)
            # The watches still run: they also show who leaves where the answer was lost.
            stack.push_async_callback(parts.preemption.close)
            stack.push_async_callback(parts.bind_verb.close)
            stack.push_async_callback(parts.aside.close)
            stack.push_async_callback(parts.manifests.close)
            callers = parts.listeners.callers = _find_callers(self.settings, presented, self._clocks)
            self.urls = await serve(stack, parts, presented)
            # The first thing to happen at the end: nobody who waits keeps the listeners from closing.
            stack.callback(parts.gate.stop)
            flows = parts.flows() + [one.run() for one in (certificates, callers) if one]
            self._tasks = [asyncio.create_task(run) for run in flows]
            self._stack = stack.pop_all()
        _log.info("scheduler started", url=self.url, scheduler=self.settings.scheduler_name)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def wait_synced(self) -> None:
        """Wait until the first lists of pods, nodes and quotas are complete."""
        await self._parts.gate.listed.wait()

    async def wait_failed(self) -> None:
        """Wait until one of the process's tasks ends, which none should, and raise what ended it."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def _stop_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _find_callers(settings: SchedulerSettings, presented: Presented | None, clocks: Clocks) -> Callers | None:
    if presented is None or not settings.webhook_client_ca:
        return None
    return Callers(Path(settings.webhook_client_ca), settings.webhook_clients, presented, clocks.sleep)
