"""Notices coroutines that a test started and nobody ended."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def no_task_left_behind(*, last_steps_s: float = 15.0) -> AsyncIterator[None]:
    """Raise AssertionError if tasks started inside still run `last_steps_s` after its end."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        _ended, running = await asyncio.wait(left, timeout=last_steps_s)
        assert not running, f"tasks were left running: {sorted(map(repr, running))}"
