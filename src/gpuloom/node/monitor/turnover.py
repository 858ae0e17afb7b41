"""Counts how often a value was another, so that what containers write makes no series and no log lines without end."""

from collections.abc import Collection, Hashable


class Turnover:
    """What each of some keys said the last time, and how often that was new; nothing is None."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, tuple[Hashable, int]] = {}

    def take(self, key: str, value: Hashable) -> bool:
        """Take a value and tell whether the key has had no more than so many yet."""
        last, changes = self._known.get(key, (None, 0))
        if value != last and changes <= self._most:
            changes += 1
        self._known[key] = (value, changes)
        return changes <= self._most

    def keep(self, keys: Collection[str]) -> None:
        """Forget all other keys."""
        self._known = {key: known for key, known in self._known.items() if key in keys}
