"""A dictionary that forgets everything once it is full: for what is quickly worked out again."""

from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class BoundedDict(dict[_Key, _Value]):
    """Holds so many values at most: one more, and all others are forgotten. It is to be filled by ``[]`` alone."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        self._most = most

    def __setitem__(self, key: _Key, value: _Value) -> None:
        if len(self) >= self._most and key not in self:
            self.clear()
        super().__setitem__(key, value)
