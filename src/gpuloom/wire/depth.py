"""Read JSON that is nested deeper than anything that gpuloom reads (trust T-05).

Fields that nobody reads may be nested thousands of levels deep: whoever may create a pod may write such
``managedFields``. A decoder descends into what it skips, and fails at a depth that differs between versions of Python.
So one pass that does not descend cuts out what is too deep, and the rest is read.
"""

from typing import TypeVar

import msgspec

_T = TypeVar("_T")

BAD_JSON = (ValueError, RecursionError)
"""The errors of reading JSON. Broken UTF-8 and integers of a thousand digits are plain ValueErrors."""


def decode(text: bytes | str | msgspec.Raw, type_: type[_T]) -> _T:
    """Read JSON text as a value of one type; what nobody reads may have any depth.

    Raises one of BAD_JSON.
    """
    try:
        return msgspec.json.decode(text, type=type_)
    except RecursionError:
        from gpuloom.wire.deepcut import cut_deep  # noqa: PLC0415 - it loads NumPy, and hardly ever runs

        return msgspec.json.decode(cut_deep(text), type=type_)


def decode_by(decoder: "msgspec.json.Decoder[_T]", text: bytes | str | msgspec.Raw) -> _T:
    """Read JSON text as :func:`decode` does, by a decoder that was made before.

    Raises one of BAD_JSON.
    """
    try:
        return decoder.decode(text)
    except RecursionError:
        from gpuloom.wire.deepcut import cut_deep  # noqa: PLC0415 - it loads NumPy, and hardly ever runs

        return decoder.decode(cut_deep(text))
