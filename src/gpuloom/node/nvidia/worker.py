"""One thread for calls that may block or never return, each with a deadline.

The driver's library is synchronous, and a card that hangs blocks its caller. So the calls run on a thread, and the
caller goes on without an answer when the time is over.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from gpuloom.node.errors import DriverSilentError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Job:
    """A call, the future for its result, and whether nobody waits for that any more."""

    name: str
    call: Callable[[], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    given_up: threading.Event = field(default_factory=threading.Event)


class Worker:
    """Runs calls one after another. The thread starts with the first call and does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._overdue: _Job | None = None

    async def call(self, name: str, call: Callable[[], _T], *, timeout_s: float) -> _T:
        """Run `call` on the thread; `name` says in errors what the driver was asked.

        Raises DriverSilentError after the deadline, or at once while an earlier call still hangs, and what the call
        raises. A call that did not begin by then is never made.
        """
        if self._overdue is not None and not self._overdue.future.done():
            raise DriverSilentError(f"the NVIDIA driver still hangs in an earlier call ({self._overdue.name})")
        self._start()
        loop = asyncio.get_running_loop()
        job = _Job(name, call, loop.create_future(), loop)
        job.future.add_done_callback(_forget)
        self._jobs.put(job)
        try:
            done, _ = await asyncio.wait({job.future}, timeout=timeout_s)
        finally:
            if not job.future.done():
                job.given_up.set()
        if not done:
            self._overdue = job
            raise DriverSilentError(f"the NVIDIA driver did not answer within {timeout_s:g} s ({name})")
        result: _T = job.future.result()
        return result

    def close(self) -> None:
        """End the thread after its current call."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread = None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=_work, args=(self._jobs,), name=self._name, daemon=True)
            self._thread.start()


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    while job := jobs.get():
        if job.given_up.is_set():
            # What it would do would surprise whoever was told that there was no answer.
            _settle(job, job.future.cancel)
            continue
        try:
            result = job.call()
        except Exception as error:  # noqa: BLE001 - whoever waits for the call is told
            _settle(job, partial(job.future.set_exception, error))
        else:
            _settle(job, partial(job.future.set_result, result))


def _settle(job: _Job, settle: Callable[[], object]) -> None:
    def settle_once() -> None:
        if not job.future.done():
            settle()

    # The loop may be closed by now; then nobody waits any more.
    with suppress(RuntimeError):
        job.loop.call_soon_threadsafe(settle_once)


def _forget(future: asyncio.Future[Any]) -> None:
    """Consume a failure whose caller has gone away."""
    if not future.cancelled():
        future.exception()
