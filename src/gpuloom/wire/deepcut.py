"""Cuts out of JSON text what is nested deeper than anything that gpuloom reads, in one pass that does not descend."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuloom.model.cards import Flags

DEEPEST = 64
"""Nothing that is read is deeper than about 20 levels; decoders can descend at least some hundreds."""

_BLOCK_BYTES = 2**16
_QUOTE, _BACKSLASH, _OPENING, _CLOSING = b'"\\{}'
_SAME_BRACKET = 0x20
"""With this bit ``[`` is ``{`` and ``]`` is ``}``; a quote has it already."""


def cut_deep(text: bytes | str | msgspec.Raw) -> bytes:
    """Return JSON text with empty lists and objects in place of those deeper than DEEPEST.

    Invalid JSON stays invalid, unless the mistake is in a part that is cut out.
    """
    whole = text.encode() if isinstance(text, str) else bytes(text)
    return b"".join(_cut(whole))


@dataclass(slots=True)
class _Place:
    """The state between two blocks: depth, whether inside a string, whether behind an odd number of backslashes."""

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
    """Return for each character of a block whether it stays, None when all do; move ``place`` behind the block."""
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
    """Remove the quotes that follow an odd number of backslashes."""
    quotes[0] &= not place.is_escaped
    if not slashes.any():
        place.is_escaped = False
        return
    # How many backslashes end at each place; one carried over comes before the block.
    places = np.arange(len(slashes), dtype=np.int32)
    others = np.maximum.accumulate(np.where(slashes, np.int32(-1 - place.is_escaped), places))
    is_odd = ((places - others) & 1).astype(bool)
    quotes[1:] &= ~is_odd[:-1]
    place.is_escaped = bool(is_odd[-1])
