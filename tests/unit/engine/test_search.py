"""Choosing by looking for the best nodes among the names gives what reading all names gives."""

import json

import pytest
from builders import NVIDIA, Engine, card, container, pod
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.filtering.candidates import MANY, MOST_SEARCHES
from gpuloom.engine.request.demand import read_demand
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Pod

PADDING = [f"elsewhere-{number:05d}" for number in range(MANY + 1)]
"""Makes the list long enough to be searched; these nodes have no cards."""
FEW = PADDING[: MANY // 2]
"""Enough to be searched, and to be read when that fails."""


def written(names: list[str]) -> NodeNames:
    return NodeNames(json.dumps(names, separators=(",", ":")).encode())


def search(engine: Engine, names: NodeNames, gpumem: int = 0, containers: int = 1) -> Decision:
    demand = read_demand(asking(gpumem, containers), NVIDIA, engine.options)
    return engine.vendor_scheduler.decide_among(demand, names)


def asking(gpumem: int, containers: int = 1) -> Pod:
    return pod(*(container(f"c{number}", gpu=1, gpumem=gpumem) for number in range(containers)))


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=MOST_SEARCHES + 4),
    st.randoms(use_true_random=False),
    st.sampled_from(["binpack", "spread", "fragmentation"]),
    st.integers(0, 10),
    st.integers(1, 3),
    st.sampled_from([PADDING, FEW]),
    st.sampled_from(["before", "after"]),
)
def test_a_search_chooses_and_tells_as_reading_all_names_does(
    held: list[int], random, policy: str, left: int, containers: int, others: list[str], where: str
) -> None:
    nodes = [f"n{number}" for number in range(len(held))]
    engine = Engine({node: [card(f"GPU-{node}", memory_mib=100)] for node in nodes}, node_policy=policy)
    for node, share in zip(nodes, held, strict=True):
        if share:
            engine.hold(node, f"GPU-{node}", memory_mib=30 * share, cores=10 * share)
    random.shuffle(nodes)
    names = [*nodes[left:], *others] if where == "before" else [*others, *nodes[left:]]
    assert written(names).is_searchable
    found = search(engine, written(names), 20, containers)
    # What nodes said to the first pod is remembered; of those nothing needs to be told again.
    engine.vendor_scheduler.forget_all()
    read = engine.decide(asking(20, containers), *names)
    assert (found.node, found.shares) == (read.node, read.shares)
    for _ in (*found.complete(), *read.complete()):
        pass
    assert (found.candidates, found.fitting.worst_first()) == (read.candidates, read.fitting.worst_first())
    assert {n: r.text for n, r in found.refusals.items()} == {n: r.text for n, r in read.refusals.items()}


@pytest.mark.parametrize("others", [PADDING, FEW])
def test_names_are_not_read_before_the_answer(others: list[str]) -> None:
    engine = Engine({"n1": [card("A")], "n2": [card("B")]})
    engine.hold("n2", "B", cores=5)
    names = written([*others, "n1", "n2"])
    assert (search(engine, names).node, names.is_searchable) == ("n2", True)


@pytest.mark.parametrize("nodes", [PADDING, FEW])
def test_of_many_equal_nodes_the_first_named_is_found_without_reading_all_names(nodes: list[str]) -> None:
    engine = Engine({node: [card(f"GPU-{node}")] for node in nodes})
    names = written(["unknown", *reversed(nodes)])
    assert (search(engine, names).node, names.is_searchable) == (nodes[-1], True)


@pytest.mark.parametrize(("times", "is_unread"), [(10, True), (14, False)])
def test_the_best_node_named_is_found_behind_better_ones_where_enough_are_named(times: int, *, is_unread: bool) -> None:
    """Of so many times the nodes that are named, the two best ones are not named."""
    nodes = [f"somewhere-{number:05d}" for number in range(times * len(FEW))]
    engine = Engine({node: [card(f"GPU-{node}", memory_mib=100)] for node in nodes})
    for node, cores in zip(nodes, (30, 20, 10), strict=False):
        engine.hold(node, f"GPU-{node}", cores=cores)
    names = written(nodes[2 : len(FEW) + 2])
    assert (search(engine, names).node, names.is_searchable) == (nodes[2], is_unread)


def test_many_equal_nodes_behind_many_others_are_found_by_reading() -> None:
    engine = Engine({node: [card(f"GPU-{node}")] for node in FEW[200:]})
    assert search(engine, written(FEW)).node == FEW[200]


def test_names_of_nodes_with_cards_are_never_read() -> None:
    engine = Engine({node: [card(f"GPU-{node}")] for node in PADDING})
    names = written(PADDING)
    for gpumem in (1, 10**6):
        for _ in search(engine, names, gpumem).complete():
            pass
    assert names.is_searchable


@pytest.mark.parametrize("nodes", [PADDING, FEW])
def test_a_node_that_has_lost_its_cards_is_told_of_as_unknown(nodes: list[str]) -> None:
    engine = Engine({node: [card(f"GPU-{node}")] for node in nodes})
    engine.cluster.register(nodes[7], NodeCards(()))
    found = search(engine, written(nodes), gpumem=10**6)
    assert found.refusals[nodes[7]].text == "node unregistered"


@pytest.mark.parametrize("nodes", [PADDING, FEW])
def test_a_node_that_is_named_twice_counts_once(nodes: list[str]) -> None:
    engine = Engine({node: [card(f"GPU-{node}")] for node in nodes})
    assert search(engine, written([*nodes, nodes[0]]), gpumem=10**6).candidates == len(nodes)


@pytest.mark.parametrize("others", [PADDING, FEW])
def test_a_node_that_comes_after_the_answer_is_not_among_those_that_fit(others: list[str]) -> None:
    engine = Engine({"n1": [card("A")]})
    decision = search(engine, written([*others, "n1", "new"]))
    engine.cluster.register("new", NodeCards((card("N"),)))
    for _ in decision.complete():
        pass
    assert [name for name, _ in decision.fitting.worst_first()] == ["n1"]
