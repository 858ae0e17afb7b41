"""What goes through the pipes of the process that reads texts: a word of one byte, a length, the text."""

import struct
from enum import IntEnum

HEAD = struct.Struct(">BI")
READ, REFUSED = 0, 1
"""How an answer begins: before the text that is left, or before the reason why it cannot be read."""


class Verb(IntEnum):
    """What is to be read."""

    REVIEW = 1
    MANIFEST = 2


def pack(word: int, text: bytes) -> bytes:
    """Return a text with its kind before it."""
    return HEAD.pack(word, len(text)) + text


def unpack_head(head: bytes) -> tuple[int, int]:
    """Return the kind of a text, and its length."""
    word, length = HEAD.unpack(head)
    return word, length
