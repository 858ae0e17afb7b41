"""A node's score follows its cards, however they came to be as they are (scheduler 5.4)."""

import pytest
from builders import card
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuloom.engine.state.card_table import CardTable, NodeCards
from gpuloom.engine.state.usage import Usage

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


@pytest.mark.slow
@pytest.mark.parametrize("cap_cores", [False, True])
@given(chance=st.randoms(use_true_random=False))
@settings(max_examples=10)
def test_very_many_nodes_score_as_they_do_one_by_one(cap_cores, chance) -> None:
    one_by_one, together = CardTable(cap_cores=cap_cores), CardTable(cap_cores=cap_cores)
    for name in (f"n{place}" for place in range(200)):
        # Nodes without slots have no score.
        registered = CARDS if chance.random() < 0.9 else NodeCards((card("GPU-0", count=0),))
        usage = {"GPU-0": Usage(chance.randrange(9), chance.randrange(100), chance.randrange(150))}
        for table in (one_by_one, together):
            table.register(name, registered)
            table.write_usage(name, usage)
        assert one_by_one.node_scores[one_by_one.positions[name]] >= 0
    for table in (one_by_one, together):
        table.remove("n1")
    assert list(together.node_scores) == list(one_by_one.node_scores)
