"""``fragmentation`` takes the node and the cards of the least cost, as the plain definition has it."""

from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.fragmentation import Costs, Node, Pod, Weights, step_of

from gpuloom.engine.scoring.fragmentation.card_value import waste_of_rests
from gpuloom.engine.scoring.fragmentation.chooser import FragmentationChooser
from gpuloom.engine.scoring.fragmentation.large_pod_nodes import LargePodNodes
from gpuloom.engine.scoring.fragmentation.market import NodeInMarket, RunningMarket
from gpuloom.engine.scoring.fragmentation.nodes import NodeColumns
from gpuloom.engine.scoring.fragmentation.parameters import ALL_PODS, PODS_WITH_CARDS, Parameters
from gpuloom.engine.scoring.fragmentation.workload import Workload, WorkloadShape

MODELS = ("a", "b", "c")
SHAPES = st.one_of(
    st.builds(
        Pod, st.sampled_from([1000, 4000, 9000]), st.sampled_from([150, 300, 470, 650, 810, 1000]), st.just(1),
        st.sampled_from(["", "", "a", "b|a", "c"]),
    ),
    st.builds(Pod, st.sampled_from([4000, 16000]), st.just(1000), st.sampled_from([2, 8]), st.just("")),
    st.builds(Pod, st.sampled_from([2000, 12000]), st.just(0), st.just(0)),
    st.builds(Pod, st.just(3000), st.just(400), st.just(2), st.just("")),
)  # fmt: skip
NODES = st.tuples(st.sampled_from(MODELS), st.sampled_from([16000, 64000]), st.sampled_from([1, 2, 8]))


class Cluster:
    """The same nodes before the engine and before the plain definition."""

    def __init__(self, kinds: list[tuple[str, int, int]], pods: list[Pod], parameters: Parameters) -> None:
        cpu = np.array([cpu for _, cpu, _ in kinds], np.int64)
        cards = np.array([cards for _, _, cards in kinds], np.int64)
        self.columns = NodeColumns(
            free_cpu=cpu.copy(),
            capacity_cpu=cpu,
            free_milli=np.where(np.arange(8) < cards[:, None], 1000, 0),
            cards=cards,
            model=np.array([MODELS.index(model) for model, _, _ in kinds], np.int64),
            models=MODELS,
        )
        workload = Workload(Counter(map(to_shape, pods)))
        self.chooser = FragmentationChooser(self.columns, workload, parameters)
        self.nodes = [Node(model, cpu, cpu, [1000] * cards) for model, cpu, cards in kinds]
        self.costs = Costs(self.nodes, pods, waste_of_rests(workload).tolist(), Weights(**asdict(parameters)))

    def learn_market(self) -> None:
        self.chooser.refresh_market()
        self.costs.learn_market()

    def choose(self, pod: Pod) -> tuple[int, list[int]] | None:
        return self.chooser.choose(to_shape(pod), np.ones(len(self.nodes), np.bool_))

    def place(self, pod: Pod, at: int, cards: list[int]) -> None:
        self.columns.free_cpu[at] -= pod.cpu
        self.nodes[at].cpu -= pod.cpu
        for card in cards:
            self.columns.free_milli[at, card] -= pod.share
            self.nodes[at].free[card] -= pod.share
        self.chooser.note_change(at)


def to_shape(pod: Pod) -> WorkloadShape:
    return WorkloadShape(pod.cpu, pod.cards, pod.share, pod.models)


def is_on_an_edge(cost: float) -> bool:
    """Whether the last digit of a sum decides to which step a cost belongs."""
    return abs(cost / 20 + 0.5 - round(cost / 20 + 0.5)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [ALL_PODS, PODS_WITH_CARDS], ids=["all-pods", "pods-with-cards"])
@settings(max_examples=40, deadline=None)
@given(
    kinds=st.lists(NODES, min_size=1, max_size=5),
    typical=st.lists(SHAPES, min_size=1, max_size=12),
    arriving=st.lists(SHAPES, min_size=1, max_size=25),
)
def test_each_pod_gets_the_first_node_of_the_least_cost(
    parameters: Parameters, kinds: list[tuple[str, int, int]], typical: list[Pod], arriving: list[Pod]
) -> None:
    cluster = Cluster(kinds, [*typical, Pod(1000, 470, 1)], parameters)
    for number, pod in enumerate(arriving):
        if number % 5 == 0:
            cluster.learn_market()
        found = {at: cost for at, node in enumerate(cluster.nodes) if (cost := cluster.costs.of(pod, node))}
        chosen = cluster.choose(pod)
        assert (chosen is None) == (not found)
        if chosen is None:
            continue
        at, cards = chosen
        if pod.cards < 2 or pod.share == 1000:
            if not any(is_on_an_edge(cost) for cost, _ in found.values()):
                assert at == min(found, key=lambda at: (step_of(found[at][0]), at))
            # Cards of equal cost may be told apart by the last digit of a sum.
            best, best_cards = found[at]
            assert sorted(cards) == sorted(best_cards) or cost_of(cluster, pod, at, cards) == pytest.approx(
                best, abs=1e-5
            )
        cluster.place(pod, at, cards)
        assert min(cluster.nodes[at].free) >= 0


def cost_of(cluster: Cluster, pod: Pod, at: int, cards: list[int]) -> float:
    """What the plain definition says of these cards: those that are not chosen are hidden from it."""
    node = cluster.nodes[at]
    hidden = [card for card, rest in enumerate(node.free) if rest >= pod.share and card not in cards]
    same = [card for card in hidden if node.free[card] == node.free[cards[0]]]
    assert same, f"cards {cards} of {node} cost more than others"
    found = cluster.costs.of(pod, node)
    assert found is not None
    return found[0] if node.free[found[1][0]] == node.free[cards[0]] else float("nan")


def test_among_nodes_of_equal_cost_the_given_order_decides() -> None:
    cluster = Cluster([("a", 64000, 2)] * 3, [Pod(1000, 470, 1)], ALL_PODS)
    turned = FragmentationChooser(
        cluster.columns, Workload(Counter([WorkloadShape(1000, 1, 470)])), ALL_PODS, np.array([2, 0, 1])
    )
    everywhere = np.ones(3, np.bool_)
    assert turned.choose(WorkloadShape(1000, 1, 470), everywhere) == (2, [0])
    assert cluster.choose(Pod(1000, 470, 1)) == (0, [0])


def test_nodes_that_are_not_possible_for_another_reason_are_not_chosen() -> None:
    cluster = Cluster([("a", 64000, 2)] * 2, [Pod(1000, 470, 1)], ALL_PODS)
    assert cluster.chooser.choose(WorkloadShape(1000, 1, 470), np.array([False, True])) == (1, [0])
    assert cluster.chooser.choose(WorkloadShape(1000, 1, 470), np.array([False, False])) is None


def test_no_node_at_all_is_no_place() -> None:
    cluster = Cluster([], [Pod(1000, 470, 1)], ALL_PODS)
    assert cluster.choose(Pod(1000, 470, 1)) is None


def test_a_share_joins_the_card_whose_rest_it_fills() -> None:
    cluster = Cluster([("a", 64000, 2)] * 2, [Pod(1000, 470, 1), Pod(1000, 530, 1)], ALL_PODS)
    cluster.place(Pod(1000, 530, 1), 1, [1])
    assert cluster.choose(Pod(1000, 470, 1)) == (1, [1])


@pytest.mark.parametrize(("amount", "level"), [(0, 1.0), (5, 0.5), (10, 0.25), (20, 0.0)])
def test_the_freest_nodes_give_first(amount: int, level: float) -> None:
    workload = Workload(Counter([WorkloadShape(0, 1, 1000), WorkloadShape(amount, 0, 0)]))
    market, nothing = RunningMarket(workload, MODELS, LargePodNodes(workload, 0.0)), NodeInMarket(0, 0, 0)
    market.change(0, 10, nothing, NodeInMarket(free=1000, whole=1, cpu=10))
    market.change(1, 10, nothing, NodeInMarket(free=0, whole=0, cpu=5))
    assert market.now().cpu_level == level
