"""How often the plugin's server may crash before the process ends (device plugin 2). Pure."""

from gpuloom.node.errors import CrashLoopError

_MOST_CRASHES = 5
_FORGOTTEN_S = 3600.0


class CrashCount:
    """Counts crashes that follow each other within an hour."""

    def __init__(self) -> None:
        self._count = 0
        self._last_s: float | None = None

    def add(self, now_s: float, cause: str) -> None:
        """Count one crash.

        Raises CrashLoopError when there were too many.
        """
        if self._last_s is not None and now_s - self._last_s > _FORGOTTEN_S:
            self._count = 0
        self._count += 1
        self._last_s = now_s
        if self._count > _MOST_CRASHES:
            raise CrashLoopError(
                f"the device plugin's server ended {self._count} times without a quiet hour, last because {cause}: "
                "find out what removes its socket, then start it again"
            )
