"""Rounds that are made aside for as long as pages are served."""

from collections.abc import Awaitable

import structlog

_log = structlog.get_logger(__name__)


async def try_round(making: Awaitable[None], what: str) -> bool:
    """Wait for a round and say whether it went well; where gpuloom itself fails, the next one is made all the same."""
    try:
        await making
    except Exception:  # noqa: BLE001 - whatever it is, it is told of with its trace
        _log.exception("a round is left out, by a fault of gpuloom: please report it", what=what)
        return False
    return True
