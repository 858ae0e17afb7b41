"""What a node says about its cards of one vendor, and what its administrator says about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuloom.model.card import Card

MOST_CARDS = 1024
"""More cards of one vendor than any node has: nonsense must not make millions of cards."""

MOST_MODELS = 32
"""More models of one vendor than any node has: each is compared with all the models that a pod names."""

Facts = Mapping[str, Any]
"""What a node says of all its cards of one vendor together; the vendor's hooks know what may be in it."""


@dataclass(frozen=True, slots=True)
class NodeCards:
    """Cards in the order of their registration.

    pair_scores  how well cards are linked: id to id to score
    cordoned     ids that the administrator has taken out of service
    """

    cards: tuple[Card, ...]
    pair_scores: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cordoned: frozenset[str] = frozenset()
    facts: Facts = field(default_factory=dict)
