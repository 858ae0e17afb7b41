"""The node names of a filter call. In large clusters reading them all costs more than deciding among them.

kube-scheduler writes them as ``["a","b"]``. In a text of exactly this form, a name in quotes is a whole name, so the
best nodes can be looked for in the text. Any other text is read as JSON at once.
"""

from collections.abc import Iterable

import numpy as np

from gpuloom.wire.gojson import decode_json

_LARGE_BYTES = 4096
"""Shorter texts are read at once: that costs less than to check their form."""
_VAST_BYTES = 2**14
"""For longer texts, counting as columns takes less time than looking through them."""
_QUOTE, _COMMA = b'",'


class NodeNames:
    """Names in the order of the call, read only when somebody wants all of them."""

    __slots__ = ("_count", "_names", "_text")

    def __init__(self, text: bytes) -> None:
        """Take the JSON text of a list of names.

        Raises WireError with the decoder's text when it is none.
        """
        self._text = text
        self._names: list[str] | None = None
        self._count = _count_names(text) if len(text) >= _LARGE_BYTES else 0
        if not self._count:
            self._names = decode_json(text, list[str])

    def __len__(self) -> int:
        return self._count if self._names is None else len(self._names)

    @property
    def is_searchable(self) -> bool:
        """Whether a name can be looked for without reading all names."""
        return self._names is None

    @property
    def text(self) -> bytes:
        """The names as they were given; if searchable, ``["a","b"]`` in plain ASCII without escapes."""
        return self._text

    def find(self, name: str) -> int:
        """Return the place of a name in the text, -1 when it is not there; only if searchable."""
        return self._text.find(f'"{name}"'.encode())

    def has(self, name: str) -> bool:
        """Tell whether a name is among them."""
        return self.find(name) >= 0 if self._names is None else name in self._names

    def without(self, names: Iterable[str]) -> "NodeNames":
        """Return the others; as searchable as these are."""
        if self._names is not None:
            gone = set(names)
            return _make(b"", [name for name in self._names if name not in gone], 0)
        text, count = self._text, self._count
        for name in (names := tuple(names)):
            quoted = f'"{name}"'.encode()
            # The first one has a comma behind it, all others before.
            for found in (b"," + quoted, quoted + b","):
                count -= text.count(found)
                text = text.replace(found, b"")
        return _make(text, None, count) if len(text) >= _LARGE_BYTES else NodeNames(text).without(names)

    def front(self, count: int) -> list[str]:
        """Return the first names, this many at most; only if searchable."""
        return [name.decode() for name in self._text[2:-2].split(b'","', count)[:count]]

    def all(self) -> list[str]:
        """Return all names."""
        if self._names is None:
            self._names = decode_json(self._text, list[str])
        return self._names


def _make(text: bytes, names: list[str] | None, count: int) -> NodeNames:
    """Make names whose form is known."""
    made = NodeNames.__new__(NodeNames)
    made._text, made._names, made._count = text, names, count  # noqa: SLF001 - of this very class
    return made


def _count_names(text: bytes) -> int:
    """Count the names of a text of the form ``["a","b"]``, 0 for any other form."""
    if not (text.startswith(b'["') and text.endswith(b'"]') and text.isascii()) or b"\\" in text:
        return 0
    return _count_looking(text) if len(text) < _VAST_BYTES else _count_by_columns(text)


def _count_looking(text: bytes) -> int:
    inner = text[2:-2]
    separators = inner.count(b'","')
    # No two of them share a quote: if they hold all quotes, only plain names are between them.
    return separators + 1 if inner.count(b'"') == 2 * separators else 0


def _count_by_columns(text: bytes) -> int:
    characters = np.frombuffer(text, np.uint8)
    is_quote, is_comma = characters == _QUOTE, characters == _COMMA
    commas = int(np.count_nonzero(is_comma))
    separators = np.count_nonzero(is_quote[:-2] & is_comma[1:-1] & is_quote[2:])
    # All commas separate two strings, and all strings are separated: only plain names are left.
    return commas + 1 if separators == commas and np.count_nonzero(is_quote) == 2 * commas + 2 else 0
