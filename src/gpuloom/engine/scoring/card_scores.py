"""HAMi's score of a card (scheduler 5.2).

Scores are computed in double precision and rounded to 32 bits before anything compares or prints them, so that amounts
which are equal on paper are equal here.
"""

from typing import Any

import numpy as np

from gpuloom.engine.scoring.weights import Weights
from gpuloom.model.cards import CardFacts, Cards, Ints, Number, Points
from gpuloom.model.request_columns import CardRequest, Mark, RequestColumns

_SCALE = 10.0


def score_cards(cards: CardFacts[Number], required: CardRequest[Number, Mark], weights: Weights) -> Any:
    """Score each card as full as it would be with the request: slots, cores and memory, 10 points each (scheduler 5.2).

    Returns a column for columns and a number for a card of plain numbers.
    """
    slots, cores, memory, usable = _terms(cards, required, weights)
    return np.float32(_SCALE * (slots + cores + memory) * usable)


def part_cards(cards: Cards, required: RequestColumns, weights: Weights) -> tuple[Points, ...]:
    """Return what slots, cores and memory add to the score of each card, for people."""
    slots, cores, memory, usable = _terms(cards, required, weights)
    return tuple(np.asarray(_SCALE * part * usable) for part in (slots, cores, memory))


def _terms(
    cards: CardFacts[Number], required: CardRequest[Number, Mark], weights: Weights
) -> tuple[Points | float, Points | float, Points | float, Ints | int]:
    """Return ``weight x used / capacity`` of slots, cores and memory, and 1, or 0 where a capacity is zero."""
    # As floats: the largest weights times what is used are beyond the whole numbers of columns.
    of_slots, of_cores, of_memory = float(weights.slot), float(weights.core), float(weights.memory)
    need, count, total_cores, total_mib = required.score, cards.count, cards.total_cores, cards.total_memory_mib
    no_slots, no_cores, no_memory = count == 0, total_cores == 0, total_mib == 0
    # Where a capacity is zero there is no score, so there it may be divided by anything.
    return (
        of_slots * (cards.used_slots + need.slots) / (count + no_slots),
        of_cores * (cards.used_cores + need.cores) / (total_cores + no_cores),
        of_memory * (cards.used_memory_mib + need.memory_mib) / (total_mib + no_memory),
        1 - (no_slots | no_cores | no_memory),
    )
