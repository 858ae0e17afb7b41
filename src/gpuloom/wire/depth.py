"""Reading JSON that is nested deeper than anything we read (trust T-05).

Fields that nobody reads may be nested thousands of levels deep: anybody who may create a pod may write such
``managedFields``. A decoder that descends into what it skips gives up there, and how deep that is differs between
versions of Python. So what is too deep is cut out of the text by one pass that does not descend, and the rest is read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuloom.model.cards import Flags

_T = TypeVar("_T")

BAD_JSON = (ValueError, RecursionError)
"""What reading JSON may raise. Broken UTF-8 and integers of a thousand digits are plain ValueErrors."""

DEEPEST = 64
"""Nothing that is read lies deeper than about 20 levels; decoders go down some hundreds at least."""

_BLOCK_BYTES = 2**16
_QUOTE, _BACKSLASH, _OPENING, _CLOSING = b'"\\{}'
_SAME_BRACKET = 0x20
"""With this bit ``[`` is ``{`` and ``]`` is ``}``; a quote has it already."""


def decode(text: bytes | str | msgspec.Raw, type_: type[_T]) -> _T:
    """Read JSON text as a value of one type; what nobody reads may be nested as deep as it likes.

    Raises one of BAD_JSON.
    """
    try:
        return msgspec.json.decode(text, type=type_)
    except RecursionError:
        return msgspec.json.decode(cut_deep(text), type=type_)


def decode_by(decoder: "msgspec.json.Decoder[_T]", text: bytes | str | msgspec.Raw) -> _T:
    """Read JSON text as :func:`decode` does, by a decoder that was made before.

    Raises one of BAD_JSON.
    """
    try:
        return decoder.decode(text)
    except RecursionError:
        return decoder.decode(cut_deep(text))


def cut_deep(text: bytes | str | msgspec.Raw) -> bytes:
    """Return JSON text in which lists and objects that lie deeper than DEEPEST are empty ones.

    What is no JSON stays none, unless the mistake is in what is cut out.
    """
    whole = text.encode() if isinstance(text, str) else bytes(text)
    return b"".join(_cut(whole))


@dataclass(slots=True)
class _Place:
    """Where a pass is between two blocks: how deep, whether inside a string, and whether behind an odd backslash."""

    depth: int = 0
    is_inside: bool = False
    is_escaped: bool = False


def _cut(text: bytes) -> Iterator[memoryview | bytes]:
    place, view = _Place(), memoryview(text)
    for start in range(0, len(text), _BLOCK_BYTES):
        block = view[start : start + _BLOCK_BYTES]
        chars = np.frombuffer(block, np.uint8)
        kept = _judge(chars, place)
        yield block if kept is None else chars[kept].tobytes()


def _judge(chars: NDArray[np.uint8], place: _Place) -> Flags | None:
    """Tell of each character of a block whether it stays, None where all do; ``place`` moves behind the block."""
    quotes = chars == _QUOTE
    _drop_escaped(quotes, chars == _BACKSLASH, place)
    outside = ~(np.logical_xor.accumulate(quotes) ^ place.is_inside)
    folded = chars | _SAME_BRACKET
    opens, closes = (folded == _OPENING) & outside, (folded == _CLOSING) & outside
    # Converted first: a sum over another type takes twice as long.
    depths = np.cumsum((opens.view(np.int8) - closes.view(np.int8)).astype(np.int32), dtype=np.int32) + place.depth
    place.depth, place.is_inside = int(depths[-1]), not outside[-1]
    # The outermost brackets stay: a list stays a list, and an object an object.
    kept: Flags = (depths <= DEEPEST) | (opens & (depths == DEEPEST + 1))
    return None if kept.all() else kept


def _drop_escaped(quotes: Flags, slashes: Flags, place: _Place) -> None:
    """Take out the quotes before which an odd number of backslashes stands."""
    quotes[0] &= not place.is_escaped
    if not slashes.any():
        place.is_escaped = False
        return
    # How many backslashes end at each place; one that is carried over stands before the block.
    places = np.arange(len(slashes), dtype=np.int32)
    others = np.maximum.accumulate(np.where(slashes, np.int32(-1 - place.is_escaped), places))
    is_odd = ((places - others) & 1).astype(bool)
    quotes[1:] &= ~is_odd[:-1]
    place.is_escaped = bool(is_odd[-1])
