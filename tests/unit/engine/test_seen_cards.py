"""Of a node that changed only the cards that are others are looked at."""

from gpuloom.engine.state.seen_cards import SeenCards
from gpuloom.model.cards import CardNumbers, Cards


def numbers() -> CardNumbers:
    return CardNumbers(*[0] * len(Cards.__struct_fields__))


def test_of_a_node_that_was_seen_only_cards_that_are_others_are_looked_at() -> None:
    seen, cards = SeenCards(2), [numbers(), numbers(), numbers()]
    assert seen.note(1, cards) == [0, 1, 2]
    cards[1] = numbers()
    assert seen.note(1, cards) == [1]
    assert seen.note(1, cards) == []
