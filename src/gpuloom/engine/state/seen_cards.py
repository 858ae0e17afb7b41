"""Which cards of nodes were looked at as they are: of a node that changed, only the others are to be looked at."""

from gpuloom.engine.state.bounded_dict import BoundedDict
from gpuloom.model.cards import CardNumbers


class SeenCards:
    """The cards of some nodes, as a table gave them as plain numbers; a card that changes becomes another object."""

    def __init__(self, most: int) -> None:
        self._seen: BoundedDict[int, list[CardNumbers]] = BoundedDict(most)

    def __contains__(self, position: int) -> bool:
        return position in self._seen

    def note(self, position: int, cards: list[CardNumbers]) -> list[int]:
        """Return the places of those cards of a node that were not seen before; from now on they are."""
        before = self._seen.get(position)
        if before is None:
            self._seen[position] = cards.copy()
            return list(range(len(cards)))
        changed = [at for at, card in enumerate(cards) if card is not before[at]]
        before[:] = cards
        return changed

    def clear(self) -> None:
        """Forget everything."""
        self._seen.clear()
