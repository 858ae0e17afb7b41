"""An explanation says what the decision did, and what it says would help does help: on clusters that nobody chose."""

import re
from collections.abc import Iterable
from typing import Any

from builders import NVIDIA, Engine, card, container, pod
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuloom.engine.explanation.depth import Depth
from gpuloom.engine.explanation.diagnosis import ExplanationScope
from gpuloom.engine.explanation.explain import explain
from gpuloom.engine.explanation.values import Explanation, NodeVerdict
from gpuloom.engine.request.demand import read_demand
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.steps import run_to_end
from gpuloom.model.card import Card
from gpuloom.wire.objects import Container, ObjectMeta, Pod, ResourceQuota, ResourceQuotaSpec, Resources

ALL = Depth(most_nodes=100, most_names=100)

cards = st.fixed_dictionaries(
    {},
    optional={
        "healthy": st.booleans(),
        "count": st.integers(0, 3),
        "memory_mib": st.sampled_from([4000, 8000, 16384]),
        "model": st.sampled_from(["NVIDIA A40", "NVIDIA L4"]),
        "numa": st.integers(0, 1),
    },
)
holders = st.tuples(
    st.integers(0, 3), st.integers(0, 3), st.sampled_from([0, 1000, 3000, 7000]), st.sampled_from([0, 30, 100])
)


def ask_for(gpus: st.SearchStrategy[int]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"gpu": gpus},
        optional={"gpumem": st.sampled_from([500, 3000, 7000, 20_000]), "gpucores": st.sampled_from([10, 60, 100])},
    )


limits = ask_for(st.integers(1, 3))
one_card = ask_for(st.just(1))
annotations = st.fixed_dictionaries(
    {}, optional={"nvidia.com/use-gputype": st.just("L4"), "hami.io/node-scheduler-policy": st.just("spread")}
)


@st.composite
def clusters(draw: st.DrawFn) -> Engine:
    nodes = draw(st.lists(st.lists(cards, min_size=1, max_size=4), min_size=1, max_size=4))
    engine = Engine(
        {
            f"n{at}": [card(f"c{at}-{place}", index=place, **facts) for place, facts in enumerate(facts_of)]
            for at, facts_of in enumerate(nodes)
        }
    )
    for number, (node, place, memory_mib, cores) in enumerate(draw(st.lists(holders, max_size=8))):
        at = node % len(nodes)
        uuid = f"c{at}-{place % len(nodes[at])}"
        engine.hold(f"n{at}", uuid, memory_mib=memory_mib, cores=cores, by=f"h{number}")
    return engine


@st.composite
def pods(draw: st.DrawFn, asks: st.SearchStrategy[dict[str, Any]] = limits) -> Pod:
    asked = [container(f"c{at}", **one) for at, one in enumerate(draw(st.lists(asks, min_size=1, max_size=2)))]
    return pod(*asked, annotations=draw(annotations))


@st.composite
def pods_with_init(draw: st.DrawFn, one: st.SearchStrategy[dict[str, Any]] = one_card) -> Pod:
    """Pods of which each container asks for one card, unless told otherwise."""
    sidecar = draw(st.booleans())
    asked = [container(f"c{at}", **each) for at, each in enumerate(draw(st.lists(one, min_size=1, max_size=2)))]
    return pod(*asked, init=[container("i", sidecar=sidecar, **draw(one))], annotations=draw(annotations))


def ask(engine: Engine, asked: Pod) -> Explanation:
    demand = read_demand(asked, NVIDIA, engine.options)
    scope = ExplanationScope(tuple(engine.cluster.table.positions))
    return run_to_end(explain(engine.pod_scheduler, {"NVIDIA": demand}, scope, ALL))


@given(clusters(), pods())
def test_it_says_what_the_decision_did(engine: Engine, asked: Pod) -> None:
    explanation, decision = ask(engine, asked), engine.decide(asked, explain=True)
    for _ in decision.complete():
        pass
    assert [ranked.node for ranked in explanation.ranking] == [
        node for node, _ in reversed(decision.fitting.worst_first())
    ]
    assert {node.name: node.refusal for node in explanation.nodes if not node.fits} == {
        node: refusal.text for node, refusal in decision.refusals.items()
    }
    chosen = [one.uuid for node in explanation.nodes for one in node.cards if one.chosen]
    assert set(chosen) == {share.uuid for given in decision.shares.values() for shares in given for share in shares}


@given(clusters(), st.builds(lambda one, told: pod(container(**one), annotations=told), limits, annotations))
def test_the_cards_add_up_to_the_nodes_words(engine: Engine, asked: Pod) -> None:
    for node in ask(engine, asked).nodes:
        if not node.fits and node.refusal != "NodeInsufficientDevice":
            assert node.refusal == count_words(node)


@given(clusters(), pods_with_init(), st.sampled_from([0, 1000, 4000, 9000, 30_000]))
def test_the_cards_of_a_later_container_add_up_under_a_quota(engine: Engine, asked: Pod, memory_mib: int) -> None:
    spec = ResourceQuotaSpec(hard={"limits.nvidia.com/gpumem": str(memory_mib)})
    engine.cluster.quotas.apply(ResourceQuota(metadata=ObjectMeta(name="q", namespace="default"), spec=spec))
    for node in ask(engine, asked).nodes:
        if not node.fits:
            assert node.refusal == count_words(node)


def count_words(node: NodeVerdict) -> str:
    words = [one.reason or "AllocatedCardsInsufficientRequest" for one in node.cards]
    return ", ".join(sorted(f"{words.count(word)}/{len(words)} {word}" for word in set(words)))


@given(clusters(), pods())
def test_the_pods_that_are_named_are_in_the_way(engine: Engine, asked: Pod) -> None:
    for remedy in [one for one in ask(engine, asked).remedies if one.change == "pods"]:
        held = [one for one in engine.cluster.ledger if one.name in {named.name for named in remedy.pods}]
        assert len(held) == len(remedy.pods)
        for one in held:
            engine.cluster.forget(one.uid)
        assert engine.decide(asked, *remedy.nodes).node == remedy.nodes[0]
        for one in held:
            engine.cluster.assume(one)


@given(clusters(), st.builds(lambda gpu, mib: pod(gpu=gpu, gpumem=mib), st.integers(1, 3), st.integers(1, 9000)))
def test_so_much_more_memory_is_what_was_missing(engine: Engine, asked: Pod) -> None:
    wanted = int(asked.containers[0].limits["nvidia.com/gpumem"])
    for remedy in [one for one in ask(engine, asked).remedies if one.change == "memory"]:
        (node, *_), by = remedy.nodes, remedy.amount
        before = engine.cluster.table.registered(node)
        assert before is not None
        for more, fits in ((by, True), (by - 1, False)):
            # No more than all of a card can be free.
            cards = (grow(one, more) if one.memory_mib >= wanted else one for one in before.cards)
            engine.cluster.register(node, NodeCards(tuple(cards)))
            assert (engine.decide(asked, node).node is not None) is fits
        engine.cluster.register(node, before)


CARD = re.compile(r"c\d+-\d+")
amounts = st.fixed_dictionaries(
    {"gpu": st.integers(1, 2), "gpumem": st.sampled_from([500, 3000, 7000])},
    optional={"gpucores": st.sampled_from([10, 60])},
)


@given(clusters(), st.one_of(pods(amounts), pods_with_init(amounts)))
def test_so_much_more_memory_is_what_all_containers_miss(engine: Engine, asked: Pod) -> None:
    for remedy in [one for one in ask(engine, asked).remedies if one.change == "memory"]:
        for node in remedy.nodes:
            everywhere = [one.id for one in registered(engine, node).cards]
            named = {uuid for uuid in CARD.findall(remedy.text) if uuid in everywhere}
            assert fits_with_free(engine, asked, node, named, remedy.amount)
            assert not fits_with_free(engine, asked, node, everywhere, remedy.amount - 1)


def registered(engine: Engine, node: str) -> NodeCards:
    found = engine.cluster.table.registered(node)
    assert found is not None
    return found


def fits_with_free(engine: Engine, asked: Pod, node: str, uuids: Iterable[str], more_mib: int) -> bool:
    """Decide as if so much more memory of some cards were free; what else is held of them stays."""
    fork = Engine({node: registered(engine, node).cards})
    table = engine.cluster.table
    for place, one in enumerate(registered(engine, node).cards):
        row = table.rows_of(table.positions[node]).start + place
        used_mib, slots = int(table.cards.used_memory_mib[row]), int(table.cards.used_slots[row])
        less = min(more_mib, used_mib) if one.id in uuids else 0
        if slots:
            fork.hold(node, one.id, memory_mib=used_mib - less, cores=int(table.cards.used_cores[row]), slots=slots)
    return fork.decide(asked).node is not None


QUOTA = re.compile(r".* allowed(?: ([\d,]+) MiB more)?(?: and)?(?: (\d+) % more of the cores)?")


@given(
    clusters(),
    st.one_of(pods(), pods_with_init(ask_for(st.integers(1, 2)))),
    st.sampled_from([500, 4000, 9000]),
    st.sampled_from([10, 60, 1000]),
)
def test_a_quota_has_to_allow_no_less_than_what_is_told(
    engine: Engine, asked: Pod, memory_mib: int, cores: int
) -> None:
    apply_quota(engine, memory_mib, cores)
    for remedy in [one for one in ask(engine, asked).remedies if one.change == "quota"]:
        found = QUOTA.fullmatch(remedy.text)
        assert found is not None
        more_mib, more_cores = (int((one or "0").replace(",", "")) for one in found.groups())
        node = remedy.nodes[0]
        for less_mib, less_cores in ((0, 0), (1, 0), (0, 1)):
            if more_mib >= less_mib and more_cores >= less_cores:
                apply_quota(engine, memory_mib + more_mib - less_mib, cores + more_cores - less_cores)
                assert (engine.decide(asked, node).node is not None) is (less_mib + less_cores == 0)
        apply_quota(engine, memory_mib, cores)


def apply_quota(engine: Engine, memory_mib: int, cores: int) -> None:
    hard = {"limits.nvidia.com/gpumem": str(memory_mib), "limits.nvidia.com/gpucores": str(cores)}
    quota = ResourceQuota(metadata=ObjectMeta(name="q", namespace="default"), spec=ResourceQuotaSpec(hard=dict(hard)))
    engine.cluster.quotas.apply(quota)


MOST_CARDS = re.compile(r"would fit on (\S+)(?: or (\d+) others?)? with (\d+) cards? at most(?: for container (\S+))?")


@given(clusters(), st.one_of(pods(ask_for(st.integers(1, 6))), pods_with_init(ask_for(st.integers(1, 4)))))
def test_so_many_cards_are_the_most_with_which_the_pod_fits(engine: Engine, asked: Pod) -> None:
    told = [found for one in ask(engine, asked).remedies if (found := MOST_CARDS.fullmatch(one.text))]
    named = {found[4] or asked.containers[0].name: found for found in told}
    assert len(told) == len(named)
    if engine.decide(asked).node is not None:
        assert not told
        return
    for one in asked.all_containers:
        cards = int(one.limits["nvidia.com/gpu"])
        decisions = {fewer: engine.decide(ask_fewer(asked, one.name, fewer), explain=True) for fewer in range(1, cards)}
        fits = {fewer for fewer, decision in decisions.items() if decision.node is not None}
        # Which containers get which cards may follow from how many they are: nothing is told where one does not do.
        found = named.get(one.name)
        assert (found is not None) is (1 in fits)
        if found is not None:
            node, others, most = found[1], int(found[2] or 0), int(found[3])
            assert most == max(fits)
            assert engine.decide(ask_fewer(asked, one.name, most), node).node == node
            for _ in decisions[most].complete():
                pass
            assert len(decisions[most].fitting) == 1 + others


def ask_fewer(asked: Pod, name: str, cards: int) -> Pod:
    """Return the pod as its author would write it with other cards of one container."""

    def change(one: Container) -> Container:
        resources = Resources(limits={**one.limits, "nvidia.com/gpu": cards}, requests=dict(one.requests))
        return replace(one, resources=resources) if one.name == name else one

    containers, init = list(map(change, asked.containers)), list(map(change, asked.init_containers))
    return replace(asked, spec=replace(asked.spec, containers=containers, init_containers=init))


def grow(one: Card, by: int) -> Card:
    return replace(one, memory_mib=one.memory_mib + by)


@given(clusters(), pods())
def test_asking_changes_nothing(engine: Engine, asked: Pod) -> None:
    def look() -> Any:
        table = engine.cluster.table
        used = (table.cards.used_memory_mib, table.cards.used_slots, table.cards.used_cores)
        return [column.tolist() for column in used], {one.uid: one.number for one in engine.cluster.ledger}

    before = look()
    ask(engine, asked)
    assert look() == before
