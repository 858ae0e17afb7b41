"""Work that writes, brought to its end whoever stops waiting for it, and for a while also when the process stops."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from gpuloom.kube import WRITE_DEADLINE_S

CLOSING_S = WRITE_DEADLINE_S + 1.0
"""So long a write that was sent is settled when the process stops."""
_T = TypeVar("_T")


class SettledWork(Generic[_T]):
    """Runs each piece of work in a task of its own; once nothing may be written, each is to end by itself."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[_T]] = set()

    async def run(self, work: Coroutine[Any, Any, _T], name: str) -> _T:
        """Wait for a piece of work; cancelled, it goes on without anybody who waits."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Wait until all has ended, at most as long as a write may take."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSING_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
