"""A node's few cards as plain numbers, which are several times as fast as short columns."""

from collections.abc import Sequence
from operator import add, sub
from typing import Any

from msgspec.structs import replace

from gpuloom.engine.usage import Usage
from gpuloom.model.cards import Cards


class PlainNode:
    """The cards of one node one by one. A card that changes becomes another object, all others stay the same ones.

    sums  slots, cores and memory of all cards: used, then in total

    With ``cap_cores`` no card counts as using more cores than it has.
    """

    def __init__(self, cards: list[Cards], *, cap_cores: bool) -> None:
        self.cards = cards
        self.sums = [0] * 6
        self._cap_cores = cap_cores
        for card in cards:
            self.sums = list(map(add, self.sums, [*self._used_of(card), *_totals_of(card)]))

    def use(self, place: int, usage: Usage) -> None:
        """Set what is used of one card."""
        before = self.cards[place]
        self.cards[place] = now = replace(
            before, used_slots=usage.slots, used_memory_mib=usage.memory_mib, used_cores=usage.cores
        )
        used = map(sub, self._used_of(now), self._used_of(before))
        self.sums[:3] = map(add, self.sums, used)

    def _used_of(self, card: Any) -> Sequence[int]:
        cores = min(card.used_cores, card.total_cores) if self._cap_cores else card.used_cores
        return card.used_slots, cores, card.used_memory_mib


def _totals_of(card: Any) -> Sequence[int]:
    return card.count, card.total_cores, card.total_memory_mib
