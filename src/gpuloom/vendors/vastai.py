"""Vastai: dies of one board are taken together (vendors 4.13)."""

from msgspec.structs import replace

from gpuloom.model.card_matrix import CardMatrix, Chosen, HookTerms
from gpuloom.model.cards import Points
from gpuloom.model.nodecards import NodeCards
from gpuloom.vendors.links import score_groups
from gpuloom.vendors.profile import Profile
from gpuloom.vendors.registers import read_registered
from gpuloom.wire.objects import Node

_STRATEGY, _DIE, _BOARD = "DeviceStrategy", "die", "AIC"


def read_dies(node: Node, profile: Profile) -> NodeCards:
    """Read registered cards; dies are grouped by their board where the first one says that they are dies."""
    cards = read_registered(node, profile)
    if dict(cards[0].custom).get(_STRATEGY) == _DIE:
        cards = tuple(replace(card, group=f"aic-{dict(card.custom).get(_BOARD, '')}") for card in cards)
    return NodeCards(cards)


def score_dies(matrix: CardMatrix, chosen: list[Chosen], _terms: HookTerms, _profile: Profile) -> Points:
    """Score how many dies of a container are on one board."""
    return score_groups(matrix, chosen, 1.0)
