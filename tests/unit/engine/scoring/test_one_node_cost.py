"""The cost of a pod on one node from plain numbers is to the last digit what arrays say of that node."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuloom.engine.scoring.fragmentation.card_value import waste_of_rests
from gpuloom.engine.scoring.fragmentation.large_pod_nodes import LargePodNodes
from gpuloom.engine.scoring.fragmentation.measured_cards import CardColumns, CardSize, MeasuredCards
from gpuloom.engine.scoring.fragmentation.measured_cost import MeasuredCosts, NodesAndPod
from gpuloom.engine.scoring.fragmentation.one_node_cost import NOWHERE, NodeAndPod
from gpuloom.engine.scoring.fragmentation.parameters import PODS_WITH_CARDS
from gpuloom.engine.scoring.fragmentation.useless_share import UselessShare
from gpuloom.engine.scoring.fragmentation.workload import Workload, WorkloadShape

MIB, SLOTS, CORES = 16_000, 4, 100
SHAPES = st.dictionaries(
    st.builds(
        WorkloadShape,
        st.sampled_from([0, 1000, 9000, 32_000]),
        st.sampled_from([1, 1, 2, 8]),
        st.sampled_from([150, 470, 530, 1000]),
        st.sampled_from(["", "0", "1"]),
    ),
    st.integers(1, 9),
    min_size=1,
    max_size=9,
)
CARD = st.tuples(st.integers(0, SLOTS), st.sampled_from([0, 30, 47, 100]), st.sampled_from([0, 7000, 7520, 9000, MIB]))
NODES = st.lists(
    st.tuples(st.lists(st.tuples(CARD, st.booleans()), min_size=9, max_size=9), st.integers(0, 70_000)),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    SHAPES,
    NODES,
    st.integers(0, 1),
    st.sampled_from([0, 4000, 40_000]),
    st.sampled_from([500, 7520]),
    st.sampled_from([1, 1, 2, 3, 8, 9, 10]),
)
def test_one_node_from_plain_numbers_costs_what_arrays_say(
    shapes: dict[WorkloadShape, int],
    nodes: list[tuple[list[tuple[tuple[int, int, int], bool]], int]],
    model: int,
    asked_cpu: int,
    asked_mib: int,
    asked_cards: int,
) -> None:
    workload = Workload(shapes)
    useless = UselessShare(workload.typical(), ["0", "1"])
    cards = MeasuredCards([CardSize(MIB, CORES)], useless.asked, waste_of_rests(workload))
    costs = MeasuredCosts(cards, useless, workload, LargePodNodes(workload, 0.1), PODS_WITH_CARDS)
    parts = np.array([card for on, _ in nodes for card, _ in on])
    unused = (parts == (SLOTS, CORES, MIB)).all(axis=1)
    columns = CardColumns(np.zeros(len(parts), np.int64), parts[:, 0], parts[:, 1], parts[:, 2], unused)
    states = cards.number(columns, np.ones(len(parts), np.bool_)).reshape(len(nodes), -1)
    changes = cards.take(0, np.array([asked_mib]), np.array([40]))

    one_node = costs.of_one_node(changes.of)
    for row, (on, cpu) in zip(states, nodes, strict=True):
        fits = np.array([may for _, may in on])
        supplied, left = costs.supplied(row), max(cpu - asked_cpu, 0)
        used = costs.used_of(costs.split(supplied), model, cpu)
        free, whole = cards.free[row].sum().item(), cards.whole[row].sum().item()
        arrays = NodesAndPod(
            states=row[None],
            fits=fits[None],
            changes=changes,
            supply=costs.split(supplied[None]),
            used=np.array([used]),
            free=np.array([free]),
            cpu=np.array([cpu]),
            left_cpu=np.array([left]),
            model=np.array([model]),
            cards=asked_cards,
        )
        codes = (~fits).astype(np.uint8).tobytes()
        plain = NodeAndPod(row.tolist(), codes, supplied, used.item(), free, whole, cpu, left, model, asked_cards)
        for way, expected in zip(one_node.ways(plain), costs.ways(arrays), strict=True):
            assert way.cost == expected.cost.item()
            assert way.cost == NOWHERE or (way.cards, way.loses) == (expected.cards[0].tolist(), expected.loses.item())
            assert way.cost < NOWHERE or not way.cards


@given(SHAPES, st.lists(CARD, min_size=1), st.sampled_from([500, 7520]))
def test_a_share_of_one_card_changes_what_columns_say(
    shapes: dict[WorkloadShape, int], parts: list[tuple[int, int, int]], asked_mib: int
) -> None:
    workload = Workload(shapes)
    useless = UselessShare(workload.typical(), ["0", "1"])
    cards = MeasuredCards([CardSize(MIB, CORES)], useless.asked, waste_of_rests(workload))
    for slots, cores, mib in parts:
        cards.number_one(0, slots, cores, mib, unused=(slots, cores, mib) == (SLOTS, CORES, MIB))
    asked = np.array([asked_mib]), np.array([40])
    together = cards.take(0, *asked)
    for state in range(len(together.free)):
        (*alone, supplied), (*expected, expected_supplied) = cards.take_one(state, *asked), together.of(state)
        assert (alone, supplied.tolist()) == (expected, expected_supplied.tolist())


def test_of_very_many_states_of_cards_few_are_remembered() -> None:
    workload = Workload({WorkloadShape(1000 * cards, cards, 1000): 1 for cards in range(1, 60)})
    useless = UselessShare(workload.typical(), ["any"])
    cards = MeasuredCards([CardSize(MIB, CORES)], useless.asked, waste_of_rests(workload))
    costs = MeasuredCosts(cards, useless, workload, LargePodNodes(workload, 0.1), PODS_WITH_CARDS)
    one_node = costs.of_one_node(lambda state: cards.take_one(state, np.array([500]), np.array([40])))
    for mib in range(2 * one_node.most_remembered):
        state = cards.number_one(0, 1, CORES, mib, unused=False)
        supplied = costs.supplied(np.array([state]))
        one_node.ways(NodeAndPod([state], b"\0", supplied, 0.0, cards.free.item(state), 0, 9000, 8000, 0, 1))
    assert 0 < one_node.remembered <= one_node.most_remembered
