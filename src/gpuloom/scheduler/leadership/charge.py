"""Whether this process is in charge: it may decide and write (binding 5). The gate keeps it right."""

from collections.abc import Callable
from dataclasses import dataclass

_NOT_LISTED = "the lists of pods and nodes are not complete yet"


class StoppedError(Exception):
    """Nothing may be written any more, or nobody needs it; the message says why where that is for somebody to read."""


@dataclass(slots=True)
class Charge:
    """Who decides over the cards.

    obstacle  why this process must neither decide nor write now, empty when it may
    since     when this process was synced and in charge (monotonic seconds), None while it is not
    """

    obstacle: str = ""
    since: float | None = None

    @property
    def is_ours(self) -> bool:
        """Whether this process may write: it knows the cluster, and nothing stands in the way."""
        return self.since is not None and not self.obstacle

    @property
    def objection(self) -> str:
        """Why this process may not write now, empty when it may."""
        return "" if self.is_ours else self.obstacle or _NOT_LISTED

    def check(self) -> None:
        """Raise StoppedError when this process may not write now."""
        if objection := self.objection:
            raise StoppedError(objection)

    def hold(self) -> Callable[[], None]:
        """Return a check for work that begins now; it fails also where this process was not in charge meanwhile."""
        since = self.since

        def check() -> None:
            self.check()
            if self.since != since:
                raise StoppedError("this process was not in charge meanwhile")

        return check
