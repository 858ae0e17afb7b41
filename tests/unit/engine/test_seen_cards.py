"""What is kept of few nodes: bounded, and of a node that changed only the cards that are others are looked at."""

from gpuloom.engine.state.bounded_dict import BoundedDict
from gpuloom.engine.state.seen_cards import SeenCards
from gpuloom.model.cards import CardNumbers, Cards


def numbers() -> CardNumbers:
    return CardNumbers(*[0] * len(Cards.__struct_fields__))


def test_one_value_too_many_and_all_others_are_forgotten() -> None:
    kept: BoundedDict[str, int] = BoundedDict(2)
    kept["a"], kept["b"], kept["c"] = 1, 2, 3
    assert kept == {"c": 3}


def test_another_value_for_a_key_that_is_there_makes_nothing_forgotten() -> None:
    kept: BoundedDict[str, int] = BoundedDict(2)
    kept["a"], kept["b"], kept["a"] = 1, 2, 3
    assert kept == {"a": 3, "b": 2}


def test_of_a_node_that_was_seen_only_cards_that_are_others_are_looked_at() -> None:
    seen, cards = SeenCards(2), [numbers(), numbers(), numbers()]
    assert seen.note(1, cards) == [0, 1, 2]
    cards[1] = numbers()
    assert seen.note(1, cards) == [1]
    assert seen.note(1, cards) == []
