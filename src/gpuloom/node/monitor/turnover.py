"""Counts how often a value was another, so that values which become labels make no series without end."""

from collections.abc import Collection, Hashable

MOST_CHANGES = 1000


class Turnover:
    """What each of some keys said the last time, and how often that was new."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Hashable, int]] = {}

    def take(self, key: str, value: Hashable) -> bool:
        """Take a value and tell whether there were no more than 999 others before it."""
        last, changes = self._known.get(key, (None, 0))
        if value != last and changes <= MOST_CHANGES:
            changes += 1
        self._known[key] = (value, changes)
        return changes <= MOST_CHANGES

    def keep(self, keys: Collection[str]) -> None:
        """Forget all other keys."""
        self._known = {key: known for key, known in self._known.items() if key in keys}
