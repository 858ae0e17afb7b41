"""A scheduler process that is recorded while it runs (``--record``)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.process import SchedulerProcess
from gpuloom.scheduler.recording.liveclient import TappedClient, TappedRecorder
from gpuloom.scheduler.recording.recorder import Scribe
from gpuloom.scheduler.recording.writer import Journal
from gpuloom.scheduler.settings import SchedulerSettings


@asynccontextmanager
async def run_recorded(
    settings: SchedulerSettings, client: TappedClient, path: Path, clocks: Clocks | None = None
) -> AsyncIterator[SchedulerProcess]:
    """Run a process and write everything that it is told and answers to a file.

    Raises OSError when the file cannot be made, and what :class:`SchedulerProcess` raises.
    """
    journal, clocks = Journal(path), clocks or Clocks()
    process = SchedulerProcess(
        settings,
        client,
        clocks=clocks,
        recorder=TappedRecorder(client.with_own_budget(), settings.scheduler_name),
        listen=lambda state: Scribe(journal, state, clocks),
    )
    async with journal, process:
        yield process
