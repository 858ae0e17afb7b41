"""``fragmentation`` in the scheduler: with memory like cores it chooses what the plain definition chooses."""

from collections import Counter
from dataclasses import asdict
from typing import Any

import pytest
from builders import NVIDIA, Engine, card, cards_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.fragmentation import Costs, Node, Pod, Weights, step_of
from oracle.measured_fragmentation import AmountCard, AmountCosts, AmountNode, AmountPod

from gpuloom.engine.explanation.headline import tell_outlook
from gpuloom.engine.request.demand import read_demand
from gpuloom.engine.scoring.fragmentation.card_value import waste_of_rests
from gpuloom.engine.scoring.fragmentation.parameters import PODS_WITH_CARDS
from gpuloom.engine.scoring.fragmentation.pod_mix import ExpectedShape, PodMix
from gpuloom.engine.state.outlook import HostCpu
from gpuloom.wire import objects

MODELS = ("first", "second", "third")
FRAGMENTATION = {"hami.io/node-scheduler-policy": "fragmentation"}
SHAPES = st.one_of(
    st.builds(
        Pod, st.sampled_from([1000, 4000, 9000]), st.sampled_from([150, 300, 470, 650, 810, 1000]), st.just(1),
        st.sampled_from(["", "", "first", "second|first", "third"]),
    ),
    st.builds(Pod, st.sampled_from([4000, 16000]), st.just(1000), st.sampled_from([2, 8]), st.just("")),
)  # fmt: skip
CARDLESS = st.builds(Pod, st.sampled_from([2000, 12000]), st.just(0), st.just(0))
NODES = st.tuples(st.sampled_from(MODELS), st.sampled_from([16000, 64000]), st.sampled_from([1, 2, 8]))


def asking(name: str, pod: Pod, annotations: dict[str, str] = FRAGMENTATION) -> objects.Pod:
    """A pod that asks for as much of a card's memory as of its cores."""
    limits: dict[str, Any] = {
        "nvidia.com/gpu": pod.cards,
        "nvidia.com/gpumem-percentage": pod.share // 10,
        "nvidia.com/gpucores": pod.share // 10,
    }
    resources = objects.Resources(limits=limits, requests={"cpu": f"{pod.cpu}m"})
    wanted = {"nvidia.com/use-gputype": pod.models.replace("|", ",")} if pod.models else {}
    return objects.Pod(
        metadata=objects.ObjectMeta(name=name, namespace="default", uid=name, annotations=annotations | wanted),
        spec=objects.PodSpec(containers=[objects.Container(name="main", resources=resources)]),
    )


def shape_of(pod: Pod) -> ExpectedShape:
    if not pod.cards:
        return ExpectedShape(cpu_milli=pod.cpu)
    models = tuple(pod.models.split("|")) if pod.models else ()
    part = pod.share // 10
    return ExpectedShape(NVIDIA.word, pod.cpu, pod.cards, memory_percent=part, cores=part, models=models)


class Cluster:
    """The same nodes before the engine and before the plain definition."""

    def __init__(self, kinds: list[tuple[str, int, int]], pods: list[Pod]) -> None:
        self.engine = Engine(
            {
                f"n{at}": [card(f"{at}-{i}", index=i, model=model, memory_mib=100_000) for i in range(cards)]
                for at, (model, _, cards) in enumerate(kinds)
            }
        )
        self.table = self.engine.cluster.table
        self.table.outlook.expect(PodMix(Counter(map(shape_of, pods))))
        self.nodes = [Node(model, cpu, cpu, [1000] * cards) for model, cpu, cards in kinds]
        for at in range(len(kinds)):
            self.tell_cpu(at)
        workload = self.table.outlook.mix.of_vendor(NVIDIA.word, MODELS, 100_000)
        assert workload is not None
        self.costs = Costs(self.nodes, pods, waste_of_rests(workload).tolist(), Weights(**asdict(PODS_WITH_CARDS)))

    def tell_cpu(self, at: int) -> None:
        self.table.outlook.set_cpu(f"n{at}", HostCpu(self.nodes[at].cpu, self.nodes[at].capacity))
        self.table.note_cpu(f"n{at}")

    def place(self, asked: objects.Pod, pod: Pod, at: int, cards: list[int]) -> None:
        self.engine.place(asked, f"n{at}")
        self.nodes[at].cpu -= pod.cpu
        for one in cards:
            self.nodes[at].free[one] -= pod.share
        self.tell_cpu(at)


def is_on_an_edge(cost: float) -> bool:
    """Whether the last digit of a sum decides to which step a cost belongs."""
    return abs(cost / 20 + 0.5 - round(cost / 20 + 0.5)) < 1e-6


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    kinds=st.lists(NODES, min_size=1, max_size=5),
    typical=st.lists(st.one_of(SHAPES, CARDLESS), min_size=1, max_size=12),
    arriving=st.lists(SHAPES, min_size=1, max_size=20),
)
def test_with_memory_like_cores_each_pod_gets_node_and_cards_of_the_least_cost(
    kinds: list[tuple[str, int, int]], typical: list[Pod], arriving: list[Pod]
) -> None:
    cluster = Cluster(kinds, [*typical, Pod(1000, 470, 1)])
    for number, pod in enumerate(arriving):
        cluster.costs.learn_market()
        found = {at: cost for at, node in enumerate(cluster.nodes) if (cost := cluster.costs.of(pod, node))}
        asked = asking(str(number), pod)
        # kube-scheduler names only nodes with enough CPU.
        names = [f"n{at}" for at, node in enumerate(cluster.nodes) if node.cpu >= pod.cpu]
        decision = cluster.engine.decide(asked, *names) if names else None
        assert (decision is None or decision.node is None) == (not found)
        if decision is None or decision.node is None:
            continue
        at, cards = int(decision.node[1:]), [int(uuid.split("-")[1]) for uuid in cards_of(decision)[0]]
        if not any(is_on_an_edge(cost) for cost, _ in found.values()):
            steps = {f"n{at}": -float(step_of(cost)) / 50 for at, (cost, _) in found.items()}
            assert dict(decision.fitting.best_first(99)) == pytest.approx(steps, abs=1e-4)
            assert at == min(found, key=lambda at: (step_of(found[at][0]), at))
            assert cluster.costs.of_cards(pod, cluster.nodes[at], cards) == pytest.approx(found[at][0], abs=1e-5)
        cluster.place(asked, pod, at, cards)


AMOUNT_PODS = st.builds(
    AmountPod,
    st.sampled_from([1000, 4000, 9000]),
    st.sampled_from([1000, 5000, 8000, 12_000, 16_000]),
    st.sampled_from([0, 10, 30, 50, 100]),
    st.just(1),
)
AMOUNT_NODES = st.tuples(
    st.sampled_from([16_000, 64_000]), st.lists(st.sampled_from([16_000, 24_000]), min_size=1, max_size=4)
)


def asking_amounts(name: str, pod: AmountPod, annotations: dict[str, str] = FRAGMENTATION) -> objects.Pod:
    limits: dict[str, Any] = {
        "nvidia.com/gpu": pod.cards,
        "nvidia.com/gpumem": pod.memory_mib,
        "nvidia.com/gpucores": pod.cores,
    }
    resources = objects.Resources(limits=limits, requests={"cpu": f"{pod.cpu}m"})
    return objects.Pod(
        metadata=objects.ObjectMeta(name=name, namespace="default", uid=name, annotations=annotations),
        spec=objects.PodSpec(containers=[objects.Container(name="main", resources=resources)]),
    )


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(AMOUNT_NODES, min_size=1, max_size=4),
    typical=st.lists(AMOUNT_PODS, min_size=1, max_size=8),
    arriving=st.lists(AMOUNT_PODS, min_size=1, max_size=15),
)
def test_a_card_counts_by_the_smaller_of_its_free_memory_and_cores(
    sizes: list[tuple[int, list[int]]], typical: list[AmountPod], arriving: list[AmountPod]
) -> None:
    engine = Engine(
        {
            f"n{at}": [card(f"{at}-{i}", index=i, memory_mib=mib) for i, mib in enumerate(cards)]
            for at, (_, cards) in enumerate(sizes)
        }
    )
    table = engine.cluster.table
    nodes = [AmountNode(cpu, cpu, [AmountCard(mib, mib, 100, 0) for mib in cards]) for cpu, cards in sizes]
    totals = [mib for _, cards in sizes for mib in cards]
    usual_mib = max(totals, key=lambda mib: (totals.count(mib), mib))
    shapes = [
        ExpectedShape(NVIDIA.word, pod.cpu, pod.cards, memory_mib=pod.memory_mib, cores=pod.cores) for pod in typical
    ]
    table.outlook.expect(PodMix(Counter(shapes)))
    workload = table.outlook.mix.of_vendor(NVIDIA.word, ["NVIDIA A40"], usual_mib)
    assert workload is not None
    expected = [
        (AmountPod(one.cpu_milli, one.amounts.memory_mib, one.amounts.cores, one.cards), chance)
        for one, chance in workload.typical()
        if one.amounts
    ]
    waste = waste_of_rests(workload).tolist()
    weights = Weights(**asdict(PODS_WITH_CARDS))
    costs = AmountCosts(expected, workload.cpu_per_milli, waste.__getitem__, weights, usual_mib)
    for number, pod in enumerate(arriving):
        for at, node in enumerate(nodes):
            table.outlook.set_cpu(f"n{at}", HostCpu(node.cpu, node.capacity))
            table.note_cpu(f"n{at}")
        found = {at: cost for at, node in enumerate(nodes) if (cost := costs.of(pod, node))}
        asked = asking_amounts(str(number), pod)
        names = [f"n{at}" for at, node in enumerate(nodes) if node.cpu >= pod.cpu]
        decision = engine.decide(asked, *names) if names else None
        assert (decision is None or decision.node is None) == (not found)
        if decision is None or decision.node is None:
            continue
        at, cards = int(decision.node[1:]), [int(uuid.split("-")[1]) for uuid in cards_of(decision)[0]]
        if not any(is_on_an_edge(cost) for cost, _ in found.values()):
            steps = {f"n{at}": -float(step_of(cost)) / 50 for at, (cost, _) in found.items()}
            assert dict(decision.fitting.best_first(99)) == pytest.approx(steps, abs=1e-4)
            assert costs.of_cards(pod, nodes[at], cards) == pytest.approx(found[at][0], abs=1e-5)
        engine.place(asked, f"n{at}")
        nodes[at].cpu -= pod.cpu
        for one in cards:
            nodes[at].cards[one] = nodes[at].cards[one].take(pod)


def test_an_explanation_says_how_much_less_is_stranded_than_on_the_next_node() -> None:
    engine = Engine({name: [card(f"{name}-0", memory_mib=100_000)] for name in ("empty", "fitting")})
    engine.cluster.table.outlook.expect(PodMix(Counter([shape_of(Pod(0, 470, 1)), shape_of(Pod(0, 530, 1))])))
    engine.hold("fitting", "fitting-0", memory_mib=53_000, cores=53)
    demand = read_demand(asking("p", Pod(0, 470, 1)), NVIDIA, engine.options)
    decision = engine.decide(asking("p", Pod(0, 470, 1)))
    assert decision.node == "fitting"
    told = tell_outlook(decision.node, decision.fitting, 2, demand.preferences)
    (_, first), (_, second) = decision.fitting.best_first(2)
    assert first > second
    stranded = f"on fitting {first - second:.2f} cards less are stranded than on the next (fragmentation)"
    assert told == f"fits on 2 of 2 nodes; {stranded}"


def test_numa_binding_leaves_a_pod_of_one_card_the_card_of_the_least_cost() -> None:
    cards = [card(uuid, index=at, numa=at, memory_mib=100_000) for at, uuid in enumerate(("empty", "fitting"))]
    engine = Engine({"n1": cards})
    engine.cluster.table.outlook.expect(PodMix(Counter([shape_of(Pod(0, 470, 1)), shape_of(Pod(0, 530, 1))])))
    engine.hold("n1", "fitting", memory_mib=53_000, cores=53)
    bound = asking("p", Pod(0, 470, 1), FRAGMENTATION | {"nvidia.com/numa-bind": "true"})
    assert cards_of(engine.decide(bound)) == [["fitting"]]
