"""Count how often a value changed, so that containers cannot make endless series or log lines."""

from collections.abc import Collection, Hashable


class Turnover:
    """The last value of each key, and how often it was new; None is no value."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, tuple[Hashable, int]] = {}

    def take(self, key: str, value: Hashable) -> bool:
        """Record a value; tell whether the key has not had too many yet."""
        last, changes = self._known.get(key, (None, 0))
        if value != last and changes <= self._most:
            changes += 1
        self._known[key] = (value, changes)
        return changes <= self._most

    def keep(self, keys: Collection[str]) -> None:
        """Forget all other keys."""
        self._known = {key: known for key, known in self._known.items() if key in keys}
