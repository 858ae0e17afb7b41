"""Names that lists give to cards: a node, and the card's index there."""

from collections.abc import Iterable
from typing import Protocol, TypeVar


class ListedCard(Protocol):
    """A card with what lists print of it; no index where its node does not tell of the card any more."""

    @property
    def uuid(self) -> str: ...  # noqa: D102

    @property
    def index(self) -> int | None: ...  # noqa: D102


_Card = TypeVar("_Card", bound=ListedCard)


class NoCardError(Exception):
    """A node has no card with this index."""


class SeveralCardsError(Exception):
    """Several do: every vendor counts its own."""


def write_card_name(node: str, index: int) -> str:
    """Write ``NODE/INDEX``, by which people name a card."""
    return f"{node}/{index}"


def read_card_name(text: str) -> tuple[str, str] | None:
    """Read ``NODE/INDEX``; None for anything else."""
    node, _, index = text.partition("/")
    return (node, index) if node and index.isdecimal() else None


def find_at(node: str, index: str, cards: Iterable[_Card]) -> _Card:
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
