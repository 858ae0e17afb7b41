"""A dictionary of bounded size: what others send must not fill the memory (trust T-02)."""

from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class FifoDict(dict[_K, _V]):
    """First in, first out: beyond ``most`` entries those go, one by one, that were put longest ago."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def put(self, key: _K, value: _V) -> None:
        """Remember something, as the newest."""
        self.pop(key, None)
        self[key] = value
        if len(self) > self._most:
            del self[next(iter(self))]
