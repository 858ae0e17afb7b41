"""Numbers in place of values that take long to compare."""

from collections.abc import Hashable
from itertools import count
from typing import Generic, TypeVar

from gpuloom.engine.bounded import FifoDict

_Key = TypeVar("_Key", bound=Hashable)


class Interner(Generic[_Key]):
    """Gives equal values the same number. Beyond so many values all get new ones: no number is ever given twice."""

    def __init__(self, most: int) -> None:
        self._numbers: FifoDict[_Key, int] = FifoDict(most)
        self._next = count()

    def number(self, value: _Key) -> int:
        """Return the number of a value."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = next(self._next)
        return found
