"""Skips an object on which gpuloom itself fails, so that all others are still handled."""

from collections.abc import Callable
from typing import TypeVar

import structlog

from gpuloom.kube import Unreadable
from gpuloom.wire.objects import KubeObject

_O = TypeVar("_O", bound=KubeObject | Unreadable)
_log = structlog.get_logger(__name__)


def skip_on_error(take: Callable[[_O], None], item: _O) -> bool:
    """Take an object and say whether that went well.

    An object on which we fail is left out and reported. If it ended the process instead, the restarted process would
    fail on it again and schedule nothing.
    """
    try:
        take(item)
    except Exception:  # noqa: BLE001 - whatever it is, it is told of with its trace
        meta = item.metadata
        name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        _log.exception("an object is left out, by a fault of gpuloom: please report it", object=name)
        return False
    return True
