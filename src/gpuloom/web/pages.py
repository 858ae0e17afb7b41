"""Long work in small pages, so that requests of kube-scheduler are answered in between."""

import asyncio
import time
from collections.abc import Generator, Iterable
from itertools import islice
from typing import TypeVar

PAGE_S = 0.002

_T = TypeVar("_T")


async def collect(items: Iterable[_T], limit: int | None = None) -> list[_T]:
    """Take items, at most ``limit``."""
    found: list[_T] = []
    ends = time.perf_counter() + PAGE_S
    for item in islice(items, limit):
        found.append(item)
        if time.perf_counter() >= ends:
            await asyncio.sleep(0)
            ends = time.perf_counter() + PAGE_S
    return found


async def finish(steps: Generator[None, None, _T]) -> _T:
    """Take all steps and return their result."""
    ends = time.perf_counter() + PAGE_S
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result
        if time.perf_counter() >= ends:
            await asyncio.sleep(0)
            ends = time.perf_counter() + PAGE_S
