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
class _ScanState:
    """The state between two blocks: depth, whether inside a string, whether behind an odd number of backslashes."""

    depth: int = 0
    is_inside: bool = False
    is_escaped: bool = False


def _cut(text: bytes) -> Iterator[memoryview | bytes]:
    state, view = _ScanState(), memoryview(text)
    for start in range(0, len(text), _BLOCK_BYTES):
        block = view[start : start + _BLOCK_BYTES]
        chars = np.frombuffer(block, np.uint8)
        kept = _judge(chars, state)
        yield block if kept is None else chars[kept].tobytes()


def _judge(chars: NDArray[np.uint8], state: _ScanState) -> Flags | None:
    """Return for each character of a block whether it stays, None when all do; move ``state`` behind the block."""
    quotes = chars == _QUOTE
    _drop_escaped(quotes, chars == _BACKSLASH, state)
    outside = ~(np.logical_xor.accumulate(quotes) ^ state.is_inside)
    folded = chars | _SAME_BRACKET
    opens, closes = (folded == _OPENING) & outside, (folded == _CLOSING) & outside
    # Converted first: a sum over another type takes twice as long.
    depths = np.cumsum((opens.view(np.int8) - closes.view(np.int8)).astype(np.int32), dtype=np.int32) + state.depth
    state.depth, state.is_inside = int(depths[-1]), not outside[-1]
    # The outermost brackets stay: a list stays a list, and an object an object.
    kept: Flags = (depths <= DEEPEST) | (opens & (depths == DEEPEST + 1))
    return None if kept.all() else kept


def _drop_escaped(quotes: Flags, slashes: Flags, state: _ScanState) -> None:
    """Remove the quotes that follow an odd number of backslashes."""
    quotes[0] &= not state.is_escaped
    if not slashes.any():
        state.is_escaped = False
        return
    # How many backslashes end at each position; one carried over comes before the block.
    positions = np.arange(len(slashes), dtype=np.int32)
    others = np.maximum.accumulate(np.where(slashes, np.int32(-1 - state.is_escaped), positions))
    is_odd = ((positions - others) & 1).astype(bool)
    quotes[1:] &= ~is_odd[:-1]
    state.is_escaped = bool(is_odd[-1])
