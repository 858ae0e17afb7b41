"""The thread for calls that may hang."""

import asyncio
import threading
from contextlib import suppress

import pytest

from gpuloom.node.errors import DriverSilentError
from gpuloom.node.nvidia.worker import Worker


@pytest.fixture
def worker():
    worker = Worker("test")
    yield worker
    worker.close()


@pytest.fixture
def hanging():
    """Whatever waits for this hangs."""
    hanging = threading.Event()
    yield hanging
    hanging.set()


async def answer(worker):
    """Wait until the worker answers again."""
    async with asyncio.timeout(60):
        while True:
            with suppress(DriverSilentError):
                return await worker.call("answer", lambda: True, timeout_s=60)
            await asyncio.sleep(0)


async def test_a_call_whose_caller_gave_up_before_it_began_is_never_made(worker, hanging):
    made = []
    errors = await asyncio.gather(
        worker.call("hang", hanging.wait, timeout_s=0.01),
        worker.call("make", lambda: made.append("late"), timeout_s=0.01),
        return_exceptions=True,
    )
    assert [type(error) for error in errors] == [DriverSilentError, DriverSilentError]
    hanging.set()
    assert (await answer(worker), made) == (True, [])


async def test_a_call_whose_caller_was_cancelled_before_it_began_is_never_made(worker, hanging):
    made = []
    calls = [
        asyncio.create_task(worker.call("hang", hanging.wait, timeout_s=60)),
        asyncio.create_task(worker.call("make", lambda: made.append("late"), timeout_s=60)),
    ]
    await asyncio.wait(calls, timeout=0)
    calls[1].cancel()
    await asyncio.wait(calls[1:])
    hanging.set()
    await asyncio.wait(calls)
    assert (await answer(worker), made) == (True, [])
