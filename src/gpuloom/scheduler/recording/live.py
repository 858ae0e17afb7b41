"""A scheduler process that is recorded while it runs (``--record``)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.process import SchedulerProcess
from gpuloom.scheduler.recording.liveclient import RecordingClient, RecordingEventRecorder
from gpuloom.scheduler.recording.recorder import ProcessRecorder
from gpuloom.scheduler.recording.writer import RecordingWriter
from gpuloom.scheduler.settings import SchedulerSettings


@asynccontextmanager
async def run_recorded(
    settings: SchedulerSettings, client: RecordingClient, path: Path, clocks: Clocks | None = None
) -> AsyncIterator[SchedulerProcess]:
    """Run a process and write everything that it is told and answers to a file.

    Raises OSError when the file cannot be made, and what :class:`SchedulerProcess` raises.
    """
    writer, clocks = RecordingWriter(path), clocks or Clocks()
    process = SchedulerProcess(
        settings,
        client,
        clocks=clocks,
        recorder=RecordingEventRecorder(client.with_own_budget(), settings.scheduler_name),
        make_observer=lambda state: ProcessRecorder(writer, state, clocks),
    )
    async with writer, process:
        yield process
