"""Pods that ask several vendors: a node is chosen as if every one had been asked about each vendor's cards alone."""

from collections.abc import Mapping
from unittest.mock import patch

import msgspec
import pytest
from builders import card
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuloom.engine.decision.attempt import BATCH_SIZE
from gpuloom.engine.decision.decision import Decision, UnsettledError
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.filtering.candidates import MANY
from gpuloom.engine.placement.placer import Placer
from gpuloom.engine.request.demand import ContainerType, Demand, Demands, read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.model.refusal import Refusal
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Container, ObjectMeta, Pod, PodSpec, Resources

WORDS = ("Ascend910B3", "DCU", "NVIDIA")
ASKED = {
    "Ascend910B3": {"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 16384},
    "DCU": {"hygon.com/dcunum": 1, "hygon.com/dcumem": 30000, "hygon.com/dcucores": 30},
    "NVIDIA": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 40000},
}
NODES = tuple(f"n{number}" for number in range(6))


def a_judge(has: Mapping[str, str], nodes: tuple[str, ...] = NODES) -> PodScheduler:
    """Make a cluster; ``has`` tells of a node the first letters of the vendors of which it has cards."""
    pod_scheduler = PodScheduler(
        ClusterState(Catalog(tuple(one for one in load_default_profiles() if one.word in WORDS))), Options()
    )
    for name in nodes:
        for word in WORDS:
            if word[0] in has.get(name, ""):
                cards = (card(f"{name}-{at}", index=at, memory_mib=65536, group=str(at // 2)) for at in range(3))
                pod_scheduler.cluster_state.register(name, word, NodeCards(tuple(cards), facts={"soft": False}))
    return pod_scheduler


def ask(containers: list[tuple[str, ...]], **annotations: str) -> Demands:
    """Read a pod; a container asks for a card of each of some vendors."""
    made = [
        Container(name=f"c{at}", resources=Resources(limits={k: str(v) for w in words for k, v in ASKED[w].items()}))
        for at, words in enumerate(containers)
    ]
    meta = ObjectMeta(name="p", namespace="ns", uid="p", annotations=annotations)
    return read_demands(Pod(metadata=meta, spec=PodSpec(containers=made)), CATALOG, Options())


CATALOG = Catalog(tuple(one for one in load_default_profiles() if one.word in WORDS))


def hold(pod_scheduler: PodScheduler, node: str, word: str, place: int, memory_mib: int, number: int) -> None:
    shares = {word: ((Share(f"{node}-{place}", word, memory_mib, 30),),)}
    uid = f"held-{number}"
    pod_scheduler.cluster_state.assume(
        Reservation(uid, "ns", uid, node, shares, (ContainerType.REGULAR,), ReservationStatus.ASSUMED, 0.0)
    )


def alone(pod_scheduler: PodScheduler, word: str, demand: Demand, node: str) -> Decision:
    for vendor_scheduler in pod_scheduler.by_vendor.values():
        vendor_scheduler.forget_all()
    return pod_scheduler.decide({word: demand}, (node,), explain=True)


def failing_turn(pod_scheduler: PodScheduler, word: str, demand: Demand, node: str) -> int:
    """Ask about ever more containers until it does not fit any more."""
    for turn in range(1, len(demand.containers) + 1):
        few = tuple(one if at < turn else replace(one, request=None) for at, one in enumerate(demand.containers))
        if (
            any(one.request for one in few)
            and alone(pod_scheduler, word, replace(demand, containers=few), node).node is None
        ):
            return turn
    raise AssertionError("it fits")


def expect(pod_scheduler: PodScheduler, demands: Demands, node: str) -> tuple[float, Refusal | None]:
    """Return the node's score and its refusal."""
    answers = {word: alone(pod_scheduler, word, demand, node) for word, demand in demands.items()}
    refusing = [word for word, answer in answers.items() if answer.node is None]
    if not pod_scheduler.cluster_state.has(node):
        return 0.0, answers[refusing[0]].refusals[node]
    if refusing:
        first = min(refusing, key=lambda word: (failing_turn(pod_scheduler, word, demands[word], node), word))
        return 0.0, answers[first].refusals[node]
    own = pod_scheduler.cluster_state.score_of(node)
    return own + sum(answer.fitting.worst_first()[0][1] - own for answer in answers.values()), None


HAS = st.dictionaries(st.sampled_from(NODES), st.sampled_from(["", "N", "D", "A", "DN", "AN", "AD", "ADN", "ADN"]))
HOLDS = st.lists(
    st.tuples(st.sampled_from(NODES), st.sampled_from(WORDS), st.integers(0, 2), st.sampled_from([16384, 40000])),
    max_size=14,
)
CONTAINERS = st.lists(st.sets(st.sampled_from(WORDS), max_size=3).map(sorted).map(tuple), min_size=1, max_size=3)


@settings(max_examples=60)
@given(HAS, HOLDS, CONTAINERS, st.sampled_from(["binpack", "spread"]))
def test_nodes_are_judged_as_by_asking_for_each_vendors_cards_alone(has, holds, containers, policy) -> None:
    demands = ask(containers, **{"hami.io/node-scheduler-policy": policy})
    if len(demands) < 2:
        return
    pod_scheduler = a_judge(has)
    for number, (node, word, place, memory_mib) in enumerate(holds):
        hold(pod_scheduler, node, word, place, memory_mib, number)
    pod_decision = pod_scheduler.decide(demands, NODES, explain=True)
    expected = {node: expect(pod_scheduler, demands, node) for node in NODES}
    refused = {node: refusal.text for node, (_, refusal) in expected.items() if refusal is not None}
    assert {node: refusal.text for node, refusal in pod_decision.refusals.items()} == refused
    scores = {node: pytest.approx(score) for node, (score, refusal) in expected.items() if refusal is None}
    assert dict(pod_decision.fitting.worst_first()) == scores
    assert set(pod_decision.shares) == (set(demands) if scores else set())


def names_of(nodes: tuple[str, ...]) -> NodeNames:
    return NodeNames(msgspec.json.encode(nodes))


@pytest.mark.parametrize("count", [200, MANY + 1])
def test_a_list_that_is_searched_gives_the_same_node_as_one_that_is_read(count: int) -> None:
    nodes = tuple(f"node-with-a-long-name-{number:04d}" for number in range(count))
    pod_scheduler = a_judge(dict.fromkeys(nodes[::2], "DN") | dict.fromkeys(nodes[1::2], "N"), nodes)
    hold(pod_scheduler, nodes[150], "DCU", 0, 16384, 0)
    demands = ask([("DCU", "NVIDIA")])
    found = pod_scheduler.decide_among(demands, names_of(nodes))
    assert names_of(nodes).is_searchable
    assert (found.node, pod_scheduler.decide(demands, nodes).node) == (nodes[150], nodes[150])
    for _ in found.complete():
        pass
    assert (len(found.fitting), found.candidates) == (len(nodes[::2]), len(nodes))


def test_a_pod_of_two_vendors_and_several_containers_is_tried_a_few_nodes_at_a_time() -> None:
    nodes = tuple(f"n{number}" for number in range(BATCH_SIZE + 6))
    pod_scheduler = a_judge(dict.fromkeys(nodes, "AN"), nodes)
    demands = ask([("Ascend910B3", "NVIDIA"), ("Ascend910B3", "NVIDIA")])
    with pytest.raises(UnsettledError) as raised:
        pod_scheduler.decide_among(demands, names_of(nodes), most_tries=4)
    with patch.object(Placer, "place", autospec=True, side_effect=Placer.place) as tried:
        steps = [tried.call_count for _ in raised.value.steps]
    assert max(len(call.args[1]) for call in tried.call_args_list) == BATCH_SIZE
    assert steps == [1, 2, 3, 4]
    assert pod_scheduler.decide_among(demands, names_of(nodes), most_tries=0).node is not None


def test_an_answer_of_one_vendor_is_kept_while_another_changes() -> None:
    pod_scheduler = a_judge(dict.fromkeys(NODES, "AN"))
    demands = ask([("Ascend910B3", "NVIDIA"), ("Ascend910B3",)])
    pod_scheduler.decide(demands, NODES)
    hold(pod_scheduler, "n3", "Ascend910B3", 0, 16384, 0)
    with patch.object(Placer, "place", autospec=True, side_effect=Placer.place) as tried:
        found = pod_scheduler.decide_among(demands, names_of(NODES), most_tries=2)
    batches = [call.args[1] for call in tried.call_args_list]
    # The chosen node is always asked for its cards.
    asked = {batch.table.names[position] for batch in batches for position in batch.cards.node.tolist()}
    assert asked <= {"n3", found.node}
