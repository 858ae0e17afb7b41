"""What is remembered, but not for ever: mappings that hold so many values at most.

They differ in what is forgotten when one more comes: ``FifoDict`` forgets what was set longest ago, ``LruCache`` what
was used longest ago. Asking is free of charge in the first, so it is what decisions ask most often; the second is for
what is asked again and again and takes long to make. What others send is always bounded (trust T-02).
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class FifoDict(dict[_Key, _Value]):
    """A dictionary in the order of its last changes, which forgets the oldest. It is to be filled by ``[]`` alone."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        self._most = most

    def __setitem__(self, key: _Key, value: _Value) -> None:
        if key in self:
            del self[key]
        elif len(self) >= self._most:
            del self[next(iter(self))]
        super().__setitem__(key, value)


class LruCache(Generic[_Key, _Value]):
    """Forgets the least recently used; unlike functools' cache, its values can be listed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[_Key, _Value] = OrderedDict()

    def recall(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """Return the value of a key, made if it is new."""
        found = self.find(key)
        if found is None:
            found = make()
            self.keep(key, found)
        return found

    def find(self, key: _Key) -> _Value | None:
        """Return the value of a key, None if it has none."""
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
        return found

    def keep(self, key: _Key, value: _Value) -> None:
        """Remember the value of a new key."""
        self._values[key] = value
        if len(self._values) > self._most:
            self._values.popitem(last=False)

    def values(self) -> tuple[_Value, ...]:
        """Return all values; the one asked for last comes last."""
        return tuple(self._values.values())

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()
