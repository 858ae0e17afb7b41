"""Tasks that outlive their test are noticed; those that are about to end are not."""

import asyncio

import pytest

from harness.leftovers import no_task_left_behind


async def test_task_that_nobody_ends_is_named() -> None:
    with pytest.raises(AssertionError, match=r"tasks were left running: .*endless"):
        async with no_task_left_behind(last_steps_s=0):
            task = asyncio.create_task(asyncio.Event().wait(), name="endless")
    task.cancel()


async def test_task_on_its_last_step_is_waited_for() -> None:
    ended = asyncio.Event()
    async with no_task_left_behind():
        task = asyncio.create_task(ended.wait())
        asyncio.get_running_loop().call_soon(ended.set)
    assert task.done()


async def test_every_coroutine_test_is_watched(request: pytest.FixtureRequest) -> None:
    assert "watched_tasks" in request.fixturenames


def test_other_tests_are_not_watched(request: pytest.FixtureRequest) -> None:
    assert "watched_tasks" not in request.fixturenames
