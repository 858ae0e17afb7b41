"""Cards that a command closed for its moves and opens no more, because it was killed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gpuloom.kube.cordons import list_closed_by_command
from gpuloom.scheduler.defragmentation.moving import RENEWAL_S
from gpuloom.wire.objects import Node

ABANDONED_S = 4 * RENEWAL_S
"""A command that has written nothing for so long, as seen here, makes no moves any more."""


@dataclass(slots=True)
class AbandonedClosings:
    """Remembers when commands were last seen to renew what they closed, by this clock: those of two machines differ.

    _seen  by node: what the command wrote last, and since when that is known
    """

    monotonic: Callable[[], float]
    _seen: dict[str, tuple[str, float]] = field(default_factory=dict)

    def find(self, node: Node) -> Sequence[str]:
        """Return the cards of a node to be opened; to be asked again and again, also for nodes without any."""
        closed, renewed = list_closed_by_command(node)
        if not (closed and renewed):
            self._seen.pop(node.name, None)
            return ()
        now = self.monotonic()
        before, since = self._seen.get(node.name, ("", now))
        if before != renewed:
            since = now
        self._seen[node.name] = renewed, since
        return closed if now - since >= ABANDONED_S else ()

    def keep_only(self, names: Iterable[str]) -> None:
        """Forget nodes that are gone."""
        known = frozenset(names)
        self._seen = {name: seen for name, seen in self._seen.items() if name in known}
