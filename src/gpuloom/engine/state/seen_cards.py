"""Which cards of nodes were looked at as they are: of a node that changed, only the others are to be looked at."""

from gpuloom.engine.bounded import FifoDict
from gpuloom.model.cards import CardNumbers


class SeenCards(FifoDict[int, list[CardNumbers]]):
    """The cards of some nodes by position, as plain numbers; a card that changes becomes another object."""

    __slots__ = ()

    def note(self, position: int, cards: list[CardNumbers]) -> list[int]:
        """Return the positions of those cards of a node that were not seen before; from now on they are."""
        before = self.get(position)
        if before is None:
            self[position] = cards.copy()
            return list(range(len(cards)))
        changed = [at for at, card in enumerate(cards) if card is not before[at]]
        before[:] = cards
        return changed
