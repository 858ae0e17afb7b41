"""A node's few cards as plain numbers, which are several times as fast as short columns."""

from collections.abc import Sequence
from operator import add, sub

from msgspec.structs import replace

from gpuloom.engine.state.usage import Usage
from gpuloom.model.cards import CardFacts, CardNumbers, Number


class NodeScalars:
    """The cards of one node one by one. A card that changes becomes another object, all others stay the same ones.

    sums  slots, cores and memory of all cards: used, then in total

    With ``cap_cores`` no card counts as using more cores than it has.
    """

    def __init__(self, cards: list[CardNumbers], *, cap_cores: bool) -> None:
        self.cards = cards
        self._cap_cores = cap_cores
        amounts = [[*self._used_of(card), *totals_of(card)] for card in cards]
        self.sums = [sum(column) for column in zip(*amounts, strict=True)] or [0] * 6

    def use(self, at: int, usage: Usage) -> None:
        """Set what is used of one card."""
        before = self.cards[at]
        self.cards[at] = now = replace(
            before, used_slots=usage.slots, used_memory_mib=usage.memory_mib, used_cores=usage.cores
        )
        used = map(sub, self._used_of(now), self._used_of(before))
        self.sums[:3] = map(add, self.sums, used)

    def _used_of(self, card: CardNumbers) -> Sequence[int]:
        return used_of(card, cap_cores=self._cap_cores)


def used_of(cards: CardFacts[Number], *, cap_cores: bool) -> Sequence[Number]:
    """Return slots, cores and memory in use: numbers of one card, columns of many."""
    used_cores = cards.used_cores
    if cap_cores:
        used_cores = used_cores - (used_cores > cards.total_cores) * (used_cores - cards.total_cores)
    return cards.used_slots, used_cores, cards.used_memory_mib


def totals_of(cards: CardFacts[Number]) -> Sequence[Number]:
    """Return slots, cores and memory that there are: numbers of one card, columns of many."""
    return cards.count, cards.total_cores, cards.total_memory_mib
