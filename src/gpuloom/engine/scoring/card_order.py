"""In which order the cards of a node are tried (scheduler 5.3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gpuloom.engine.scoring.card_scores import score_cards
from gpuloom.engine.scoring.weights import Weights
from gpuloom.model.cards import CardFacts, CardNumbers, Cards, Flags, Ints
from gpuloom.model.request_columns import CardRequest, RequestColumns, RequestNumbers

DeviceSort = Literal["numa-first", "score-first"]


@dataclass(frozen=True, slots=True, eq=False)
class SortKey:
    """What cards are tried by, smallest first.

    text  says so to people
    of    gives the numbers: a column for columns, a number for a card of plain numbers
    yields  nobody asks for them where a node's rank tells which of its cards it is for
    """

    text: str
    of: Callable[[CardFacts[Any], CardRequest[Any, Any], Weights], Any]
    yields: bool = False


EMPTIEST = SortKey("emptiest first", score_cards)
FULLEST = SortKey("fullest first", lambda cards, required, weights: -score_cards(cards, required, weights))
LOWEST_NUMA = SortKey("lowest NUMA node first", lambda cards, _required, _weights: cards.numa)
HIGHEST_NUMA = SortKey("highest NUMA node first", lambda cards, _required, _weights: -cards.numa)
LEAST_SHARED = SortKey("fewest containers first", lambda cards, _required, _weights: cards.used_slots)

CardOrder = tuple[SortKey, ...]
"""Keys in the order in which they count. Among equals the highest index comes first, then the card registered last."""


def yields_to_ranks(order: CardOrder) -> bool:
    """Tell whether a pod gets the cards that a node's rank is for, where they are known.

    With NUMA binding they are known of pods of one card alone.
    """
    return order[0].yields or (order[0] is LOWEST_NUMA and len(order) > 1 and order[1].yields)


def sort_cards(cards: Cards, required: RequestColumns, order: CardOrder, weights: Weights) -> Ints:
    """Return the cards of one node in the order in which they are tried."""
    return np.lexsort((*_later_first(cards), *reversed(_columns(cards, required, order, weights))))


def sort_matrix(cards: Cards, required: RequestColumns, order: CardOrder, weights: Weights, there: Flags) -> Ints:
    """Return the same for each node, a row of columns; cells without a card come last."""
    keys = reversed(_columns(cards, required, order, weights))
    return np.lexsort((*np.broadcast_arrays(*_later_first(cards)), *keys, ~there), axis=-1)


def _later_first(cards: Cards) -> tuple[Ints, Ints]:
    """Return what breaks ties, the less important first."""
    return np.arange(0, -cards.index.shape[-1], -1), -cards.index


def sort_key(
    card: CardNumbers, required: RequestNumbers, order: CardOrder, weights: Weights, at: int
) -> tuple[Any, ...]:
    """Return what a card of plain numbers is tried by, smallest first, for the same order; its position breaks ties."""
    return (*_columns(card, required, order, weights), -card.index, -at)


def _columns(cards: CardFacts[Any], required: CardRequest[Any, Any], order: CardOrder, weights: Weights) -> list[Any]:
    return [key.of(cards, required, weights) for key in order]
