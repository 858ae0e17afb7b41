"""What Filter and an explanation say of why a node does not take a pod is the same, whatever stands in the way."""

from collections.abc import Mapping
from typing import Any

import msgspec
from builders import card, pod
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.decision.nominated import NominationScheduler
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.explanation.depth import Depth
from gpuloom.engine.explanation.diagnosis import ExplanationScope
from gpuloom.engine.explanation.explain import explain
from gpuloom.engine.request.demand import Demands, read_container_types, read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.state.nominations import Nomination, Nominations
from gpuloom.engine.steps import run_to_end
from gpuloom.model.card import Card
from gpuloom.model.mig import MIG_MODE, MigPlacement, MigProfile
from gpuloom.model.nodecards import NodeCards
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Container, ObjectMeta, Pod, ResourceQuota, ResourceQuotaSpec, Resources

CATALOG = Catalog(tuple(one for one in load_default_profiles() if one.word in {"NVIDIA", "DCU", "Metax-SGPU"}))
LIMITS = {
    "NVIDIA": ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"),
    "DCU": ("hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores"),
    "Metax-SGPU": ("metax-tech.com/sgpu", "metax-tech.com/vmemory", "metax-tech.com/vcore"),
}
NODES = ("n0", "n1", "n2")
SMALL = MigProfile(
    "1g.5gb", memory_mib=4096, cores=14, slice_count=1, placements=tuple(MigPlacement(at, 1) for at in range(7))
)


def make_card(word: str, uuid: str, index: int, *, memory_mib: int, is_divided: bool) -> Card:
    made = card(uuid, index=index, memory_mib=memory_mib, count=3, model=f"{word} X", numa=index % 2)
    if word == "NVIDIA" and is_divided:
        return msgspec.structs.replace(made, mode=MIG_MODE, mig_profiles=(SMALL,), count=7)
    return made


cards = st.tuples(st.sampled_from([8192, 16384]), st.booleans())
words = st.sampled_from(["NVIDIA", "NVIDIA", "NVIDIA", "DCU", "Metax-SGPU"])
nodes = st.fixed_dictionaries(
    {"NVIDIA": st.lists(cards, min_size=1, max_size=3)},
    optional={"DCU": st.lists(cards, min_size=1, max_size=2), "Metax-SGPU": st.lists(cards, min_size=1, max_size=2)},
)
containers = st.tuples(
    words, st.integers(1, 2), st.sampled_from([1024, 3072, 6144, 12288]), st.sampled_from([0, 20, 60, 100])
)
annotations = st.fixed_dictionaries(
    {},
    optional={
        "nvidia.com/numa-bind": st.just("true"),
        "hami.io/gpu-scheduler-policy": st.sampled_from(["binpack", "topology-aware", "mutex"]),
        "nvidia.com/use-gputype": st.sampled_from(["NVIDIA X", "H100"]),
    },
)


@st.composite
def pods(draw: st.DrawFn, name: str) -> Pod:
    def ask(at: str, *, sidecar: bool = False) -> Container:
        word, count, memory_mib, cores = draw(containers)
        of_cards, of_memory, of_cores = LIMITS[word]
        memory = memory_mib // 1024 if word == "Metax-SGPU" else memory_mib
        limits: dict[str, Any] = {of_cards: str(count), of_memory: str(memory)} | (
            {of_cores: str(cores)} if cores else {}
        )
        return Container(name=at, restart_policy="Always" if sidecar else None, resources=Resources(limits=limits))

    init = [ask(f"i{at}", sidecar=draw(st.booleans())) for at in range(draw(st.integers(0, 2)))]
    return pod(
        *[ask(f"c{at}") for at in range(draw(st.integers(1, 2)))], name=name, init=init, annotations=draw(annotations)
    )


@st.composite
def questions(draw: st.DrawFn) -> tuple[NominationScheduler, list[tuple[Pod, int]]]:
    state = ClusterState(CATALOG)
    for node in NODES:
        for word, kinds in draw(nodes).items():
            made = [
                make_card(word, f"{node}-{word}-{at}", at, memory_mib=memory_mib, is_divided=divided)
                for at, (memory_mib, divided) in enumerate(kinds)
            ]
            state.register(node, word, NodeCards(tuple(made)))
    live, nominations, terminating = PodScheduler(state, Options()), Nominations(), set[str]()
    for number in range(draw(st.integers(0, 5))):
        hold(live, draw(pods(f"h{number}")))
    holders = sorted(held.uid for held in state.ledger)
    asked = [(draw(pods(f"p{number}")), draw(st.integers(0, 2))) for number in range(3)]
    for number in range(draw(st.integers(0, 2))):
        waiting, priority = draw(st.sampled_from(asked)) if draw(st.booleans()) else (draw(pods(f"w{number}")), 2)
        victims = frozenset(draw(st.lists(st.sampled_from(holders), max_size=2)) if holders else ())
        uid, demands = waiting.metadata.uid, read_demands(waiting, CATALOG, Options())
        nominations.put(
            Nomination(uid, "default", waiting.name, draw(st.sampled_from(NODES)), priority, demands, number, victims)
        )
    if draw(st.booleans()):
        hard = {"limits.nvidia.com/gpumem": str(draw(st.sampled_from([2000, 8000, 20_000])))}
        state.quotas.apply(
            ResourceQuota(metadata=ObjectMeta(name="q", namespace="default"), spec=ResourceQuotaSpec(hard=dict(hard)))
        )
    return NominationScheduler(live, nominations, terminating), asked * 2


def hold(live: PodScheduler, asked: Pod) -> None:
    decision = live.decide(read_demands(asked, CATALOG, Options()), NODES)
    if decision.node is not None:
        live.cluster_state.assume(
            Reservation(
                uid=asked.metadata.uid,
                namespace="default",
                name=asked.name,
                node=decision.node,
                shares=decision.shares,
                container_types=read_container_types(asked),
                status=ReservationStatus.CONFIRMED,
                since=0.0,
                instances=decision.instances,
            )
        )


def refuse_in_filter(scheduler: NominationScheduler, demands: Demands, priority: int) -> Mapping[str, str] | None:
    decision = scheduler.decide_among(demands, NodeNames(msgspec.json.encode(NODES)), priority)
    return None if decision.node is not None else {node: one.text for node, one in decision.refusals.items()}


@given(questions())
def test_what_filter_and_an_explanation_say_of_a_node_is_the_same(
    asked: tuple[NominationScheduler, list[tuple[Pod, int]]],
) -> None:
    scheduler, pods_with_priority = asked
    live = PodScheduler(scheduler.pod_scheduler.cluster_state, Options())
    beside = NominationScheduler(live, scheduler.nominations, scheduler.terminating)
    for one, priority in pods_with_priority:
        demands = read_demands(one, CATALOG, Options())
        said = refuse_in_filter(scheduler, demands, priority)
        kept = [node for node in NODES if beside.keeps_room(demands, node, priority)]
        scope = ExplanationScope(NODES, dict.fromkeys(kept, "kept"))
        told = run_to_end(explain(live, demands, scope, Depth(most_nodes=9, remedies=False)))
        if said is None:
            assert told.fitting
        else:
            assert {node: text for node, text in said.items() if node not in kept} == {
                node.name: node.refusal for node in told.nodes if node.name not in kept
            }


def test_a_node_that_would_not_take_a_nominated_pod_anyway_says_why_and_not_who_else_waits_there() -> None:
    state = ClusterState(CATALOG)
    state.register("n0", "NVIDIA", NodeCards((card("a", count=2),)))
    live, nominations = PodScheduler(state, Options()), Nominations()
    hold(live, pod(name="victim", gpu=1, gpumem=12_000))
    for priority, (name, memory_mib) in enumerate((("asked", 6000), ("other", 2000))):
        demands = read_demands(pod(name=name, gpu=1, gpumem=memory_mib), CATALOG, Options())
        nominations.put(
            Nomination(f"uid-{name}", "default", name, "n0", priority, demands, 0, frozenset({"uid-victim"}))
        )
    demands = read_demands(pod(name="asked", gpu=1, gpumem=6000), CATALOG, Options())
    said = refuse_in_filter(NominationScheduler(live, nominations, set()), demands, 0)
    assert said is not None
    assert said["n0"] == "1/1 CardInsufficientMemory"
