"""A mapping that forgets what was not asked for longest."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class LruCache(Generic[_Key, _Value]):
    """Holds so many values at most; unlike functools' cache, its values can be listed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[_Key, _Value] = OrderedDict()

    def recall(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """Return the value of a key, made if it is new."""
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = make()
            if len(self._values) > self._most:
                self._values.popitem(last=False)
        self._values.move_to_end(key)
        return found

    def values(self) -> tuple[_Value, ...]:
        """Return all values; the one asked for last comes last."""
        return tuple(self._values.values())

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()
