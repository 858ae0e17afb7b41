"""Finding very many node names at once: names are compared as columns of words of eight bytes.

Reading the names of a call as text and looking for each of them in a dictionary takes four times as long.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpuloom.model.cards import Ints

Words = NDArray[np.uint64]

_WORD_BYTES = 8
_MASKS: Words = np.array([(1 << 8 * kept) - 1 for kept in range(_WORD_BYTES + 1)], np.uint64)
_QUOTE = b'"'
_ODD = 0x9E3779B97F4A7C15
_SLOTS_A_NAME = 8
"""Few names share a slot then."""


class NameIndex:
    """The positions of names in a list to which names are only added, unless :meth:`follow` is called.

    Position 0 is nobody's, and so are those with an empty name.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._version = 0
        self._count = 0
        self._words: list[Words] = []
        self._shift = np.uint64(0)
        self._order: Ints = np.zeros(0, np.int64)
        self._first: Ints = np.zeros(0, np.int64)

    def find(self, text: bytes) -> Ints:
        """Return the position of every name of a text ``["a","b"]``, 0 for those that are not known.

        The text must be of exactly this form: plain ASCII, nothing escaped, no blanks.
        """
        self._refresh()
        quotes = np.flatnonzero(np.frombuffer(text, np.uint8) == ord(_QUOTE))
        starts = quotes[::2] + 1
        # With the quote at its end no name is the beginning of another.
        lengths = quotes[1::2] + 1 - starts
        words = _read_words(text, starts, lengths, len(self._words))
        return np.where(lengths <= _WORD_BYTES * len(words), self._match(words), 0)

    def _match(self, words: list[Words]) -> Ints:
        """Compare with the names in the same slot, one after the other."""
        slots = self._slots(words)
        at, end = self._first[slots], self._first[slots + 1]
        found = np.zeros(len(slots), np.int64)
        left = np.flatnonzero(at < end)
        while len(left):
            positions = self._order[at[left]]
            same = np.logical_and.reduce(
                [known[positions] == asked[left] for known, asked in zip(self._words, words, strict=True)]
            )
            found[left[same]] = positions[same]
            left = left[~same]
            at[left] += 1
            left = left[at[left] < end[left]]
        return found

    def follow(self, names: Sequence[str], version: int) -> None:
        """Look for names in a list from now on; the version is another one when any place got another name."""
        if version != self._version:
            self._names, self._version = names, version
            self._build()

    def _refresh(self) -> None:
        """Take in names that were added."""
        if self._count != len(self._names):
            self._build()

    def _build(self) -> None:
        self._count = len(self._names)
        encoded = [name.encode() + _QUOTE for name in self._names]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        self._words = _read_words(
            b"".join(encoded), np.cumsum(lengths) - lengths, lengths, -(-int(lengths.max()) // _WORD_BYTES)
        )
        bits = max((_SLOTS_A_NAME * len(encoded) - 1).bit_length(), 1)
        self._shift = np.uint64(64 - bits)
        slots = self._slots(self._words)
        order = np.argsort(slots, kind="stable")
        # Empty names are many, and all in one slot, where others would be compared with each of them.
        is_named = lengths > len(_QUOTE)
        self._order = order[is_named[order]]
        self._first = np.zeros((1 << bits) + 1, np.int64)
        np.cumsum(np.bincount(slots[is_named], minlength=1 << bits), out=self._first[1:])

    def _slots(self, words: list[Words]) -> Ints:
        mixed = np.zeros(len(words[0]), np.uint64)
        for number, word in enumerate(words, 1):
            mixed += word * np.uint64(pow(_ODD, number, 1 << 64))
        return (mixed >> self._shift).astype(np.int64)


def _read_words(text: bytes, starts: Ints, lengths: Ints, count: int) -> list[Words]:
    """Return the first ``count`` words of each piece of a text; what is not of the piece is 0."""
    padded = text + bytes(_WORD_BYTES * count)
    # Every byte of the text begins a word of its own.
    words: Words = np.ndarray((len(padded) - _WORD_BYTES + 1,), np.dtype("<u8"), padded, 0, (1,))
    beginnings = range(0, _WORD_BYTES * count, _WORD_BYTES)
    return [words[starts + begin] & _MASKS.take(lengths - begin, mode="clip") for begin in beginnings]
