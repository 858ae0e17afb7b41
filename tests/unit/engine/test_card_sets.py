"""Sets of pods whose leaving makes room: which of very many are looked at, and what is said of those that are not."""

from math import inf

import pytest

from gpuloom.engine.planning.defragmentation.card_sets import MOST_TRIALS, PodSets, combine_cards


def some_cards(cards: int) -> list[PodSets]:
    """Cards each of which serves when one of two pods leaves."""
    return [PodSets([frozenset({f"{card}-a"}), frozenset({f"{card}-b"})]) for card in range(cards)]


@pytest.mark.parametrize(("cards", "tried"), [(2, inf), (30, 0)], ids=["few", "very many"])
def test_where_there_are_too_many_combinations_of_cards_nothing_is_said_of_smaller_sets(
    cards: int, tried: float
) -> None:
    assert combine_cards(some_cards(cards), cards // 2, cards).tried == tried


def test_no_more_sets_are_compared_with_each_other_than_are_ever_tried() -> None:
    assert len(combine_cards(some_cards(16), 8, 10).by_size) == MOST_TRIALS
