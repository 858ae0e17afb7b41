"""What ranks nodes where a policy alone cannot, because that follows from all nodes together."""

from typing import Protocol

from gpuloom.engine.state.card_table import CardTable
from gpuloom.model.cards import CardNumbers, Ints, RuleCodes, Scores
from gpuloom.model.request_columns import RequestColumns


class RanksOfAll(Protocol):
    """Ranks for one class of pods, kept up to date by whoever asks."""

    def rank(self, table: CardTable, required: RequestColumns, column: RuleCodes, ranks: Scores) -> Scores:
        """Return ranks by position in place of other ranks, UNFIT where those say that a node does not fit.

        ranks     those of the last time, with other ones for nodes that changed, or all anew
        required  what the pod needs of each card, ``column`` the rule that rejects it or 0, by row
        """

    def ranks_of(self, which: slice | Ints) -> Scores:
        """Return the ranks that nodes had when they were ranked last, whether they fit or not."""

    def cards_of(self, position: int) -> list[int]:
        """Return which of a node's cards the rank is for, none where that is not known."""

    def remember_node(self, position: int, cards: list[CardNumbers]) -> None:
        """Remember the cards of a node as they are now: then only those that change are read."""
