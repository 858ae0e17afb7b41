"""The last hour of some figures, a byte for each minute of each."""

from collections.abc import Sequence

POINTS = 60
_UNKNOWN = 255
_MOST = 100

Hour = tuple[int | None, ...]
"""Per cent, oldest first; None where nothing is known."""


class Hours:
    """Rows of per cents; ``slot`` numbers the minutes since some beginning."""

    __slots__ = ("_bytes", "_slot")

    def __init__(self, rows: int) -> None:
        self._bytes = bytearray([_UNKNOWN]) * (rows * POINTS)
        self._slot = -1

    def put(self, slot: int, percents: Sequence[int | None], most_held: int) -> None:
        """Note the figures of a minute; if at most ``most_held`` were skipped, they were as before."""
        skipped = slot - self._slot - 1 if self._slot >= 0 else 0
        if skipped < -1:
            return
        for row, percent in enumerate(percents):
            begin = row * POINTS
            before = self._bytes[begin + self._slot % POINTS] if skipped <= most_held else _UNKNOWN
            for back in range(min(skipped, POINTS)):
                self._bytes[begin + (slot - 1 - back) % POINTS] = before
            self._bytes[begin + slot % POINTS] = _UNKNOWN if percent is None else min(percent, _MOST)
        self._slot = slot

    def read(self, row: int, slot: int) -> Hour:
        """Return the hour of a row that ends with a minute."""
        known = range(max(self._slot - POINTS + 1, 0), self._slot + 1)
        found = (
            self._bytes[row * POINTS + at % POINTS] if at in known else _UNKNOWN
            for at in range(slot - POINTS + 1, slot + 1)
        )
        return tuple(None if value == _UNKNOWN else value for value in found)
