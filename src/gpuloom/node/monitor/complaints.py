"""Log what is wrong once, not every five seconds: one line when it begins or changes, and one when it ends."""

from collections.abc import Mapping

import structlog

_log = structlog.get_logger(__name__)


class Complaints:
    """What was wrong the last time, by the name of the object."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._known: dict[str, str] = {}

    @property
    def count(self) -> int:
        """How many things are wrong."""
        return len(self._known)

    def replace(self, present: Mapping[str, str]) -> None:
        """Set what is wrong now, and log what is new or over."""
        for name, text in present.items():
            if self._known.get(name) != text:
                _log.warning(f"{self._what} cannot be used", name=name, error=text)
        for name in self._known:
            if name not in present:
                _log.info(f"{self._what} is no longer in error", name=name)
        self._known = dict(present)
