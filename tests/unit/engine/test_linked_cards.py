"""Cards are chosen by their links also where there are too many sets to look at all of them (scheduler 6.7)."""

import tracemalloc
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.placement.linked_cards import choose_linked

INSTANCES = [f"GPU-{at // 7}" for at in range(56)]
"""Eight cards of seven instances: 1,420,494,075 sets of eight."""


def islands(cards: int, size: int) -> dict[str, dict[str, int]]:
    """Link the cards of each island better than others."""
    return {
        f"GPU-{one}": {f"GPU-{other}": 50 if one % size == other % size else 10 for other in range(cards)}
        for one in range(cards)
    }


def test_eight_of_many_instances_are_chosen_without_looking_at_all_sets() -> None:
    tracemalloc.start()
    try:
        chosen, _ = choose_linked(INSTANCES, 8, islands(8, 2))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sorted({*chosen}) == list(chosen)
    assert len(chosen) == 8
    assert peak < 1_000_000


def test_of_many_cards_those_of_one_island_are_chosen() -> None:
    candidates = [f"GPU-{at}" for at in range(40)]
    chosen, total = choose_linked(candidates, 10, islands(40, 4))
    assert chosen == tuple(range(0, 40, 4))
    assert total == 45 * 50


def test_scores_beyond_all_bounds_still_give_as_many_cards_as_are_wanted() -> None:
    candidates = [f"GPU-{at}" for at in range(40)]
    scores = {one: dict.fromkeys(candidates, -(2**63)) for one in candidates}
    chosen, _ = choose_linked(candidates, 10, scores)
    assert len(set(chosen)) == 10


def test_of_a_thousand_cards_as_many_as_are_wanted_are_chosen() -> None:
    chosen, _ = choose_linked([f"GPU-{at}" for at in range(1024)], 300, {})
    assert chosen == tuple(range(300))


@given(st.integers(2, 8).flatmap(lambda cards: st.tuples(st.just(cards), st.integers(1, cards), st.data())))
def test_where_all_sets_are_looked_at_the_first_of_the_best_is_chosen(drawn: tuple[int, int, st.DataObject]) -> None:
    cards, wanted, data = drawn
    uuids = [f"GPU-{data.draw(st.integers(0, cards - 1))}" for _ in range(cards)]
    one_score = st.dictionaries(st.sampled_from(uuids), st.integers(-5, 5))
    scores = data.draw(st.dictionaries(st.sampled_from(uuids), one_score))

    def score(one: int, other: int) -> int:
        return 0 if uuids[one] == uuids[other] else scores.get(uuids[one], {}).get(uuids[other], 0)

    def add_up(chosen: tuple[int, ...]) -> int:
        if wanted == 1 and cards > 1:
            return -sum(score(chosen[0], other) for other in range(cards))
        return sum(score(one, other) for one, other in combinations(chosen, 2))

    best = max(combinations(range(cards), wanted), key=add_up)
    assert choose_linked(uuids, wanted, scores) == (best, add_up(best))
