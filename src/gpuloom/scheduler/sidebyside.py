"""Doing the same with very many things, a few of them at a time: each waits for the API server."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

_T = TypeVar("_T")


async def do_side_by_side(things: Collection[_T], do: Callable[[_T], Awaitable[None]], *, at_once: int) -> None:
    """Do it with one thing after the other, in order, with so many of them at once; others run between two.

    What ``do`` raises ends all of it.
    """
    left = iter(things)

    async def work() -> None:
        for one in left:
            await do(one)
            # It may have found that nobody needs to be asked.
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(at_once, len(things))):
            tasks.create_task(work())
