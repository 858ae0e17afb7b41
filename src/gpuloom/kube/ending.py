"""Steps that are brought to their end, also where whoever waits for them is stopped."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def finish(step: Coroutine[Any, Any, _T]) -> _T:
    """Do a step to its end; a cancellation that comes meanwhile is raised then, unless the step fails."""
    doing = asyncio.create_task(step)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing})
        doing.result()
        raise
