"""Cards as memory, cores and slots leave them, by number: all that is asked of a state is looked up in columns.

Most cards of a cluster are in one of few states, so what follows from a state is worked out once. What is free of a
card is the smaller of its free memory and its free cores, as thousandths of the card, rounded to whole per cent.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpuloom.engine.scoring.fragmentation.workload import AskedOfCards
from gpuloom.model.cards import WHOLE_CARD, Flags, Ints, Points

NOTHING = 0
"""The state of a card that gives nothing to anybody, and of places without a card."""
MOST_STATES = 65_536
"""Beyond so many the owner begins anew with those that cards are in."""
_SEVERAL = 2
"""Of a card with several free slots one may be taken and it still gives: how many they are makes no difference."""
_MOST_MIB, _MOST_CORES, _MOST_SLOTS, _MOST_SIZES = 2**31 - 1, 1023, 1023, 1023
_PERCENT = 10


class CardSize(NamedTuple):
    """What a card has in all; 0 where that is not counted."""

    memory_mib: int
    cores: int


class CardColumns(NamedTuple):
    """States in parts, as columns: the number of the card's size, free slots, cores and memory, and whether unused.

    One state may be of plain numbers.
    """

    size: Any
    slots: Any
    cores: Any
    memory_mib: Any
    unused: Any

    def pack(self) -> Ints:
        """Return one number a state. What is too large to be told apart counts as the largest that is."""
        packed = np.minimum(self.size, _MOST_SIZES)
        packed = packed * (_MOST_SLOTS + 1) + np.clip(self.slots, 0, _SEVERAL)
        packed = packed * (_MOST_CORES + 1) + np.clip(self.cores, 0, _MOST_CORES)
        packed = packed * (_MOST_MIB + 1) + np.clip(self.memory_mib, 0, _MOST_MIB)
        found: Ints = packed * 2 + self.unused
        return found


class CardStates(Protocol):
    """The states that cards are in, by number; see :class:`MeasuredCards`."""

    @property
    def whole(self) -> Flags:
        """By state, whether nobody uses the card."""

    @property
    def supplied(self) -> Points:
        """A row a state: what the card has for typical pods."""


class CardValues(NamedTuple):
    """What cards are worth, or by how much that changes, a row each; see :class:`MeasuredCards`."""

    free: Ints
    waste: Points
    supplied: Points

    def join(self, more: "CardValues") -> "CardValues":
        """Return these and more of them."""
        free, waste, supplied = (np.concatenate(both) for both in zip(self, more, strict=True))
        return CardValues(free, waste, supplied)

    def of(self, state: int) -> tuple[int, float, Points]:
        """Return those of one state."""
        return self.free.item(state), self.waste.item(state), self.supplied[state]


class _Asked(NamedTuple):
    """What typical pods ask of a card, as the rules ask it: a row for each of them, a column a size of cards.

    memory_mib   0 where a share is the same part of memory and cores
    cores        at least; 0 where none are counted, so cards that are asked for by memory alone reject nobody
    alone        whether only an unused card will do
    share_milli  so much of what is free, 0 where memory and cores are asked for
    """

    memory_mib: Ints
    cores: Ints
    alone: Flags
    share_milli: Ints

    def served_by(self, cards: CardColumns, free: Ints) -> Flags:
        """Say which cards, a column each, have room for which."""
        size = cards.size
        fits = cards.memory_mib >= self.memory_mib[:, size]
        fits &= cards.cores >= self.cores[:, size]
        fits &= cards.unused | ~self.alone[:, size]
        fits &= free >= self.share_milli[:, size]
        found: Flags = fits
        return found


def _tabulate(asked: Sequence[AskedOfCards], memory_of: Ints, cores_of: Ints) -> _Asked:
    """Return what pods to come ask of a card, a row a kind of request, a column a size of card."""
    memory_mib, cores, alone, share_milli = np.zeros((4, len(asked), len(memory_of)), np.int64)
    for at, one in enumerate(asked):
        if one.amounts is None:
            share_milli[at] = one.share_milli
            continue
        memory_mib[at] = one.amounts.memory_mib or memory_of * one.amounts.memory_percent // WHOLE_CARD
        # A card whose cores are all taken has none for whoever does not say how many.
        cores[at] = max(one.amounts.cores, 1) * (cores_of > 0)
        alone[at] = one.amounts.cores >= WHOLE_CARD
    return _Asked(memory_mib, cores, alone == 1, share_milli)


def _unpack(packed: Any) -> CardColumns:
    """Return the parts of numbers, each as many bits as its largest has."""
    sizes, slots, cores = (packed >> bit for bit in (52, 42, 32))
    return CardColumns(sizes, slots & _MOST_SLOTS, cores & _MOST_CORES, packed >> 1 & _MOST_MIB, packed & 1 == 1)


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
        self._asked = _tabulate(asked, self._memory_of, self._cores_of)
        self._waste_of_rests = waste_of_rests
        self._numbers: dict[int, int] = {0: NOTHING}
        # With room for states to come.
        self._packed: Ints = np.zeros(1, np.int64)
        self.free: Ints = np.zeros(1, np.int64)
        self.whole: Flags = np.zeros(1, np.bool_)
        self.supplied: Points = np.zeros((1, 2 * len(asked)))
        self.waste: Points = np.zeros(1)

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, cards: CardColumns, usable: Flags) -> Ints:
        """Return the numbers of the states of cards, NOTHING for those that are not usable."""
        packed = np.where(usable & (cards.slots > 0), cards.pack(), 0)
        different, where = np.unique(packed, return_inverse=True)
        self._number_states([one for one in different.tolist() if one not in self._numbers])
        return np.array([self._numbers[one] for one in different.tolist()], np.int64)[where]

    def number_one(self, size: int, slots: int, cores: int, memory_mib: int, *, unused: bool) -> int:
        """Return the number of a card in parts as in :class:`CardColumns`; one that is not usable has no slots."""
        if slots <= 0:
            return NOTHING
        packed = min(size, _MOST_SIZES) * (_MOST_SLOTS + 1) + min(slots, _SEVERAL)
        packed = packed * (_MOST_CORES + 1) + min(max(cores, 0), _MOST_CORES)
        packed = packed * (_MOST_MIB + 1) + min(max(memory_mib, 0), _MOST_MIB)
        packed = packed * 2 + unused
        known = self._numbers.get(packed)
        if known is None:
            known = len(self)
            self._number_states([packed])
        return known

    def take(self, first: int, memory_mib: Ints, cores: Ints) -> CardValues:
        """Return by how much the values of cards change once a share is taken: by size, so much memory and cores.

        first  the states from this one on are looked at
        """
        which = slice(first, len(self))
        cards = _unpack(self._packed[which])
        left = cards._replace(
            cores=np.maximum(cards.cores - cores[cards.size], 0),
            memory_mib=np.maximum(cards.memory_mib - memory_mib[cards.size], 0),
            unused=np.zeros(len(cards.size), np.bool_),
        )
        found, gives = self._value(left), cards.slots > 1
        return CardValues(
            found.free * gives - self.free[which],
            found.waste * gives - self.waste[which],
            found.supplied * gives[:, None] - self.supplied[which],
        )

    def take_one(self, state: int, memory_mib: Ints, cores: Ints) -> tuple[int, float, Points]:
        """Return the same for one state; its card will be in the state that is left sooner or later."""
        card, left = _unpack(self._packed.item(state)), NOTHING
        if card.slots > 1:
            size = card.size
            left_cores, left_mib = card.cores - cores.item(size), card.memory_mib - memory_mib.item(size)
            left = self.number_one(size, card.slots, left_cores, left_mib, unused=False)
        return (
            self.free.item(left) - self.free.item(state),
            self.waste.item(left) - self.waste.item(state),
            self.supplied[left] - self.supplied[state],
        )

    def _value(self, cards: CardColumns) -> CardValues:
        memory, cores = self._memory_of[cards.size], self._cores_of[cards.size]
        free = np.minimum(_part(cards.memory_mib, memory), _part(cards.cores, cores))
        serves = self._asked.served_by(cards, free).astype(np.float64)
        supplied = np.ascontiguousarray(np.concatenate([serves, serves * free]).T)
        return CardValues(free, self._waste_of_rests[free], supplied)

    def _number_states(self, packed: list[int]) -> None:
        """Give new states of cards the next numbers, and fill the columns for them."""
        if not packed:
            return
        which = slice(len(self), len(self) + len(packed))
        while which.stop > len(self._packed):
            for name in "_packed", "free", "whole", "supplied", "waste":
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        self._packed[which] = packed
        # Plain numbers take a third of the time of columns of one row.
        cards = _unpack(packed[0] if len(packed) == 1 else self._packed[which])
        self.free[which], self.waste[which], self.supplied[which] = self._value(cards)
        self.whole[which] = cards.unused
        self._numbers.update(zip(packed, range(which.start, which.stop), strict=True))


def _part(free: Any, total: Any) -> Any:
    """Return thousandths, to whole per cent; all where nothing is counted."""
    percent = (free * WHOLE_CARD + total // 2) // (total + (total == 0))
    return np.minimum(percent + (total == 0) * WHOLE_CARD, WHOLE_CARD) * _PERCENT
