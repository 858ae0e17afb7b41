"""A node's score follows its cards, however they came to be as they are (scheduler 5.4)."""

import pytest
from builders import card
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.table import CardTable, NodeCards
from gpuloom.engine.usage import Usage

CARDS = NodeCards(tuple(card(f"GPU-{number}", memory_mib=100) for number in range(3)))
WRITES = st.lists(
    st.tuples(st.integers(0, 2), st.builds(Usage, st.integers(0, 9), st.integers(0, 100), st.integers(0, 150))),
    min_size=1,
    max_size=8,
)


def table_with_cards(*, cap_cores: bool) -> CardTable:
    table = CardTable(cap_cores=cap_cores)
    table.register("n1", CARDS)
    return table


@pytest.mark.parametrize("cap_cores", [False, True])
@given(writes=WRITES)
def test_usage_that_is_written_step_by_step_scores_as_if_written_at_once(cap_cores, writes) -> None:
    slowly, at_once = table_with_cards(cap_cores=cap_cores), table_with_cards(cap_cores=cap_cores)
    for number, usage in writes:
        slowly.write_usage("n1", {f"GPU-{number}": usage})
        assert slowly.node_scores[slowly.positions["n1"]] >= 0
    at_once.write_usage("n1", {f"GPU-{number}": usage for number, usage in writes})
    assert list(slowly.node_scores) == list(at_once.node_scores)
