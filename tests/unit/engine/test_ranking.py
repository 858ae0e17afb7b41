"""Fitting nodes by score."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.scoring.binpack import BINPACK
from gpuloom.engine.scoring.ranking import UNFIT, Ranking

RANKS = st.lists(st.sampled_from([float(UNFIT), 0.0, 1.0, 2.0]), max_size=12)


def ranking(ranks: list[float]) -> Ranking:
    names = [f"n{number}" for number in range(len(ranks))]
    return Ranking(
        names, np.arange(len(ranks)), np.array(ranks, np.float32), candidates=len(ranks), policy=BINPACK.node
    )


@given(RANKS, st.integers(1, 12))
def test_the_worst_few_are_the_first_of_all(ranks: list[float], most: int) -> None:
    assert ranking(ranks).worst_first(most) == ranking(ranks).worst_first()[:most]


@given(RANKS)
def test_the_best_is_listed_last(ranks: list[float]) -> None:
    best, listed = ranking(ranks).best(), ranking(ranks).worst_first()
    assert [f"n{best}"] == [listed[-1][0]] if listed else best is None


def test_a_node_that_is_struck_counts_no_more() -> None:
    nodes = ranking([1.0, 2.0])
    nodes.exclude(1)
    assert (len(nodes), nodes.best()) == (1, 0)
