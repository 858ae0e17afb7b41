"""Cards as memory, cores and slots leave them, by number: all that is asked of a state is looked up in columns.

Most cards of a cluster are in one of few states, so what follows from a state is worked out once. What is free of a
card is the smaller of its free memory and its free cores, as thousandths of the card, rounded to whole per cent.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpuloom.engine.scoring.fragmentation.useless_share import AskedOfCards
from gpuloom.engine.scoring.fragmentation.workload import WHOLE, Amounts
from gpuloom.model.cards import WHOLE_CARD, Flags, Ints, Points

NOTHING = 0
"""The state of a card that gives nothing to anybody, and of places without a card."""
MOST_STATES = 65_536
"""Beyond so many the owner begins anew with those that cards are in."""
_NOWHERE = -1
_MOST_MIB, _MOST_CORES, _MOST_SLOTS, _MOST_SIZES = 2**31 - 1, 1023, 1023, 1023
_PERCENT = 10
_FEW = 64
"""So many are found one by one in less time than by sorting."""


class CardSize(NamedTuple):
    """What a card has in all; 0 where that is not counted."""

    memory_mib: int
    cores: int


class CardColumns(NamedTuple):
    """States in parts, as columns: the number of the card's size, free slots, cores and memory, and whether unused."""

    size: Ints
    slots: Ints
    cores: Ints
    memory_mib: Ints
    unused: Flags

    def pack(self) -> Ints:
        """Return one number a state. What is too large to be told apart counts as the largest that is."""
        packed = np.minimum(self.size, _MOST_SIZES)
        packed = packed * (_MOST_SLOTS + 1) + np.clip(self.slots, 0, _MOST_SLOTS)
        packed = packed * (_MOST_CORES + 1) + np.clip(self.cores, 0, _MOST_CORES)
        packed = packed * (_MOST_MIB + 1) + np.clip(self.memory_mib, 0, _MOST_MIB)
        return packed * 2 + self.unused


class CardValues(NamedTuple):
    """What cards are worth, or by how much that changes, a row each; see :class:`MeasuredCards`."""

    free: Ints
    waste: Points
    supplied: Points

    def join(self, more: "CardValues") -> "CardValues":
        """Return these and more of them."""
        free, waste, supplied = (np.concatenate(both) for both in zip(self, more, strict=True))
        return CardValues(free, waste, supplied)


class _Asked(NamedTuple):
    """What typical pods ask of a card, as the rules ask it: a column for each of them.

    memory_mib   a row a size of cards; 0 where a share is the same part of memory and cores
    cores        at least; counted where a card has any, so cards that are asked for by memory alone reject nobody
    alone        whether only an unused card will do
    share_milli  so much of what is free, 0 where memory and cores are asked for
    """

    memory_mib: Ints
    cores: Ints
    alone: Flags
    share_milli: Ints

    def served_by(self, cards: CardColumns, total_cores: Ints, free: Ints) -> Flags:
        """Say which cards, a row each, have room for which."""
        fits = cards.memory_mib[:, None] >= self.memory_mib[cards.size]
        fits &= (total_cores == 0)[:, None] | (cards.cores[:, None] >= self.cores)
        fits &= cards.unused[:, None] | ~self.alone
        fits &= free[:, None] >= self.share_milli
        found: Flags = fits
        return found


def _tabulate(asked: Sequence[AskedOfCards], memory_of: Ints) -> _Asked:
    amounts = [one.amounts or Amounts(0, 0, 0) for one in asked]
    memory_mib = [
        np.full(len(memory_of), one.memory_mib) if one.memory_mib else memory_of * one.memory_percent // WHOLE_CARD
        for one in amounts
    ]
    return _Asked(
        np.stack(memory_mib, axis=1) if memory_mib else np.zeros((len(memory_of), 0), np.int64),
        # A card whose cores are all taken has none for whoever does not say how many.
        np.array([max(one.amounts.cores, 1) if one.amounts else 0 for one in asked], np.int64),
        np.array([one.cores >= WHOLE_CARD for one in amounts], np.bool_),
        np.array([0 if one.amounts else one.share_milli for one in asked], np.int64),
    )


def _unpack(packed: Ints) -> CardColumns:
    """Return the parts of numbers, each as many bits as its largest has; NOTHING has none."""
    rest = np.maximum(packed, 0)
    sizes, slots, cores = (rest >> bit for bit in (52, 42, 32))
    return CardColumns(sizes, slots & _MOST_SLOTS, cores & _MOST_CORES, rest >> 1 & _MOST_MIB, rest & 1 == 1)


class MeasuredCards:
    """The states that cards are in or would be in, each with its number.

    free      by state, thousandths of a card
    whole     by state, whether nobody uses the card
    supplied  a row a state: for each that typical pods ask of cards, 1 where the card has room for it, 0 otherwise;
              then for each ``free`` where it has room, 0 otherwise
    waste     by state, thousandths of a card that will be wasted of what is free
    """

    def __init__(self, sizes: Sequence[CardSize], asked: Sequence[AskedOfCards], waste_of_rests: Points) -> None:
        self._memory_of = np.array([one.memory_mib for one in sizes], np.int64)
        self._cores_of = np.array([one.cores for one in sizes], np.int64)
        self._asked = _tabulate(asked, self._memory_of)
        self._waste_of_rests = waste_of_rests
        self._numbers: dict[int, int] = {_NOWHERE: NOTHING}
        self._packed: Ints = np.array([_NOWHERE])
        count = len(asked)
        self.free: Ints = np.zeros(1, np.int64)
        self.whole: Flags = np.zeros(1, np.bool_)
        self.supplied: Points = np.zeros((1, 2 * count))
        self.waste: Points = np.zeros(1)

    def __len__(self) -> int:
        return len(self._packed)

    def number(self, cards: CardColumns, usable: Flags) -> Ints:
        """Return the numbers of the states of cards, NOTHING for those that are not usable."""
        packed = np.where(usable & (cards.slots > 0), cards.pack(), _NOWHERE)
        if len(packed) <= _FEW:
            known = [self._numbers.get(one, _NOWHERE) for one in packed.tolist()]
            if _NOWHERE not in known:
                return np.array(known, np.int64)
        different, where = np.unique(packed, return_inverse=True)
        self._add([one for one in different.tolist() if one not in self._numbers])
        return np.array([self._numbers[one] for one in different.tolist()], np.int64)[where]

    def number_one(self, size: int, slots: int, cores: int, memory_mib: int, *, unused: bool) -> int:
        """Return the number of a card in parts as in :class:`CardColumns`; one that is not usable has no slots."""
        if slots <= 0:
            return NOTHING
        packed = min(size, _MOST_SIZES) * (_MOST_SLOTS + 1) + min(slots, _MOST_SLOTS)
        packed = packed * (_MOST_CORES + 1) + min(max(cores, 0), _MOST_CORES)
        packed = packed * (_MOST_MIB + 1) + min(max(memory_mib, 0), _MOST_MIB)
        packed = packed * 2 + unused
        known = self._numbers.get(packed)
        if known is None:
            known = len(self)
            self._add([packed])
        return known

    def take(self, which: slice, memory_mib: Ints, cores: Ints) -> "CardValues":
        """Return by how much the values of cards change once a share is taken: by size, so much memory and cores.

        which  the states that are looked at
        """
        cards = _unpack(self._packed[which])
        left = CardColumns(
            cards.size,
            cards.slots - 1,
            np.maximum(cards.cores - cores[cards.size], 0),
            np.maximum(cards.memory_mib - memory_mib[cards.size], 0),
            np.zeros(len(cards.size), np.bool_),
        )
        found, gives = self._value(left), left.slots > 0
        return CardValues(
            found.free * gives - self.free[which],
            found.waste * gives - self.waste[which],
            found.supplied * gives[:, None] - self.supplied[which],
        )

    def _value(self, cards: CardColumns) -> "CardValues":
        memory, cores = self._memory_of[cards.size], self._cores_of[cards.size]
        free = np.minimum(_part(cards.memory_mib, memory), _part(cards.cores, cores))
        serves = self._asked.served_by(cards, cores, free).astype(np.float64)
        supplied = np.concatenate([serves, serves * free[:, None]], axis=1)
        return CardValues(free, self._waste_of_rests[free], supplied)

    def _add(self, packed: list[int]) -> None:
        if not packed:
            return
        first = len(self._packed)
        self._numbers.update((one, first + at) for at, one in enumerate(packed))
        cards = _unpack(np.array(packed, np.int64))
        new = self._value(cards)
        self._packed = np.concatenate([self._packed, np.array(packed, np.int64)])
        self.free = np.concatenate([self.free, new.free])
        self.whole = np.concatenate([self.whole, cards.unused])
        self.supplied = np.concatenate([self.supplied, new.supplied])
        self.waste = np.concatenate([self.waste, new.waste])


def _part(free: Ints, total: Ints) -> Ints:
    """Return thousandths, to whole per cent; all where nothing is counted."""
    percent = (free * WHOLE_CARD + total // 2) // np.maximum(total, 1)
    return np.where(total > 0, np.minimum(percent * _PERCENT, WHOLE), WHOLE)
