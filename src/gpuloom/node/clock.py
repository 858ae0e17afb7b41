"""Waiting: a type that tests replace so that they need not wait, and waiting for one of two things."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from gpuloom.kube.annotations import Sleep

__all__ = ["Sleep", "finish_first"]


async def finish_first(*awaitables: Awaitable[Any]) -> None:
    """Wait until one of these is done, cancel the others, and raise what it raised."""
    tasks = [asyncio.ensure_future(one) for one in awaitables]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
