"""Cards by the place that lists show: a node, and the index there."""

from collections.abc import Iterable

from gpuloom.web.views.values import CardView


class NoCardError(Exception):
    """A node has no card with this index."""


class SeveralCardsError(Exception):
    """Several do: every vendor counts its own."""


def find_at(node: str, index: str, cards: Iterable[CardView]) -> CardView:
    """Return the card of a node's that has an index.

    Raises NoCardError, SeveralCardsError.
    """
    found = [card for card in cards if str(card.index) == index]
    if not found:
        raise NoCardError(f"node {node} has no card with index {index}")
    if len(found) > 1:
        told = ", ".join(card.uuid for card in found)
        raise SeveralCardsError(f"node {node} has several cards with index {index} ({told}): give the UUID of one")
    return found[0]
