"""Which nodes changed, in order: whoever remembers something about nodes reads what is new."""

from collections.abc import Sequence

MOST_ENTRIES = 16_384
"""Older entries are dropped; a reader that is behind them looks at everything again."""


class ChangeLog:
    """Positions of nodes that changed. A mark is a place in the log, to read on from later."""

    def __init__(self) -> None:
        self._entries: list[int] = []
        self._dropped = 0

    @property
    def mark(self) -> int:
        """Where the log ends now."""
        return self._dropped + len(self._entries)

    def note(self, position: int) -> None:
        """Note that something about a node changed."""
        self._entries.append(position)
        if len(self._entries) > MOST_ENTRIES:
            dropped = MOST_ENTRIES // 2
            del self._entries[:dropped]
            self._dropped += dropped

    def since(self, mark: int) -> Sequence[int] | None:
        """Return what changed after a mark, None when that is not known any more."""
        if mark < self._dropped:
            return None
        return self._entries[mark - self._dropped :]
