"""What hooks said about a node is known while its cards are as they were; nodes whose cards are alike share it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from builders import card
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.filtering import hooked_results
from gpuloom.engine.filtering.hook_calls import choose_cards
from gpuloom.engine.request.demand import ContainerType, Demands, read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.model.share import Share, Tenancy
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.wire.objects import Container, ObjectMeta, Pod, PodSpec, Resources

CATALOG = Catalog(tuple(load_default_profiles()))
WORD = "Ascend910B3"
WORDS = ("AMD", "AWSNeuron", WORD, "Ascend910C", "Metax-GPU", "Metax-SGPU", "Vastai", "XPU", "kunlun")
FACTS = {"AWSNeuron": {"cores per device": 2, "instance type": "inf2.24xlarge"}}
CARDS, ALL_HEALTHY = 4, 0b1111
NODES = tuple(f"n{number}" for number in range(12))
ASKED = NODES[:3]


def a_node(name: str, word: str = WORD, healthy: int = ALL_HEALTHY) -> NodeCards:
    facts: dict[str, Any] = {"memory_mib": 98304, "cores": 3 if word == "AWSNeuron" else 100}
    made = [
        card(f"{name}-{at}", index=at, group=f"g{at // 2}", healthy=bool(healthy >> at & 1), **facts)
        for at in range(CARDS)
    ]
    return NodeCards(tuple(made), facts=FACTS.get(word, {}))


def a_judge(word: str = WORD, policy: str = "binpack") -> PodScheduler:
    pod_scheduler = PodScheduler(ClusterState(Catalog((CATALOG[word],))), Options(node_policy=policy))
    for name in NODES:
        pod_scheduler.cluster_state.register(name, word, a_node(name, word))
    return pod_scheduler


def demands(pod_scheduler: PodScheduler, cards: int = 1) -> Demands:
    (profile,) = pod_scheduler.cluster_state.catalog
    made = Container(name="c", resources=Resources(limits={profile.resources.count: str(cards)}))
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="p"), spec=PodSpec(containers=[made]))
    return read_demands(pod, pod_scheduler.cluster_state.catalog, pod_scheduler.options)


def hold(pod_scheduler: PodScheduler, uuid: str, *, by: str = "", memory_mib: int = 1000) -> None:
    (profile,) = pod_scheduler.cluster_state.catalog
    word = profile.word
    made = Reservation(
        uid=by or uuid,
        namespace="ns",
        name=uuid,
        node=uuid.partition("-")[0],
        shares={word: ((Share(uuid, word, memory_mib, 1),),)},
        container_types=(ContainerType.REGULAR,),
        status=ReservationStatus.ASSUMED,
        since=0.0,
        tenancies={word: Tenancy("", "fixed-share")},
    )
    pod_scheduler.cluster_state.assume(made)


def break_or_hold(pod_scheduler: PodScheduler, word: str, uuid: str, *, breaks: bool, by: str, memory_mib: int) -> None:
    """Let a node say that a card of it is not healthy, or somebody take a part of that card."""
    if breaks:
        node, _, at = uuid.partition("-")
        pod_scheduler.cluster_state.register(node, word, a_node(node, word, healthy=ALL_HEALTHY & ~(1 << int(at))))
    else:
        hold(pod_scheduler, uuid, by=by, memory_mib=memory_mib)


def ask(pod_scheduler: PodScheduler, cards: int = 1) -> Decision:
    return pod_scheduler.decide(demands(pod_scheduler, cards), ASKED, explain=True)


@contextmanager
def looked_at() -> Iterator[list[int]]:
    """Tell on how many nodes cards were chosen, each time."""
    found: list[int] = []

    def choose(*args: Any) -> Any:
        found.append(len(args[1].there))
        return choose_cards(*args)

    with patch.object(hooked_results, "choose_cards", choose):
        yield found


def test_a_changed_node_is_looked_at_once() -> None:
    pod_scheduler = a_judge()
    ask(pod_scheduler)
    hold(pod_scheduler, "n1-3")
    with looked_at() as nodes:
        ask(pod_scheduler)
        ask(pod_scheduler)
    assert nodes == [1]


def test_many_changed_nodes_are_looked_at_together_and_no_other_one() -> None:
    pod_scheduler = a_judge()
    ask(pod_scheduler)
    for name in NODES[:6]:
        hold(pod_scheduler, f"{name}-3")
    with looked_at() as nodes:
        ask(pod_scheduler)
        ask(pod_scheduler)
    assert nodes == [6]


def let_many_others_change(pod_scheduler: PodScheduler) -> None:
    for name in NODES[4:10]:
        hold(pod_scheduler, f"{name}-0")


def test_a_card_that_is_full_since_many_nodes_changed_is_not_given() -> None:
    pod_scheduler = a_judge()
    ask(pod_scheduler)
    hold(pod_scheduler, "n1-3")
    decision = ask(pod_scheduler)
    given = decision.shares[WORD][0][0].uuid
    assert decision.node == "n1"
    hold(pod_scheduler, given, by="full", memory_mib=98304)
    let_many_others_change(pod_scheduler)
    decision = ask(pod_scheduler)
    assert (decision.node, decision.shares[WORD][0][0].uuid != given) == ("n1", True)


def test_a_node_that_is_full_since_many_nodes_changed_is_not_chosen() -> None:
    pod_scheduler = a_judge()
    ask(pod_scheduler)
    for at in range(CARDS):
        hold(pod_scheduler, f"n1-{at}", memory_mib=98304)
    let_many_others_change(pod_scheduler)
    decision = ask(pod_scheduler)
    assert (decision.node, list(decision.refusals)) == ("n0", ["n1"])


def test_a_node_that_is_again_as_it_was_is_not_looked_at_again() -> None:
    pod_scheduler = a_judge()
    ask(pod_scheduler)
    for _ in range(2):
        hold(pod_scheduler, "n1-3")
        ask(pod_scheduler)
        pod_scheduler.cluster_state.forget("n1-3")
        ask(pod_scheduler)
    with looked_at() as nodes:
        hold(pod_scheduler, "n1-3")
        assert ask(pod_scheduler).node == "n1"
        pod_scheduler.cluster_state.forget("n1-3")
        assert ask(pod_scheduler).node == "n0"
    assert nodes == []


def test_nodes_whose_cards_are_alike_are_looked_at_once() -> None:
    pod_scheduler = a_judge()
    ask(pod_scheduler)
    hold(pod_scheduler, "n1-3")
    ask(pod_scheduler)
    with looked_at() as nodes:
        hold(pod_scheduler, "n2-3")
        ask(pod_scheduler)
    assert nodes == []


def test_another_amount_on_a_card_is_another_state() -> None:
    pod_scheduler = a_judge()
    ask(pod_scheduler)
    hold(pod_scheduler, "n1-3")
    ask(pod_scheduler)
    with looked_at() as nodes:
        hold(pod_scheduler, "n1-3", memory_mib=98304)
        ask(pod_scheduler)
    assert nodes == [1]


def test_each_shape_has_answers_of_its_own() -> None:
    pod_scheduler = a_judge()
    for cards in (1, 2):
        ask(pod_scheduler, cards)
    hold(pod_scheduler, "n1-3")
    assert [len(ask(pod_scheduler, cards).shares[WORD][0]) for cards in (1, 2)] == [1, 2]


def test_nodes_that_say_something_else_of_their_cards_are_not_alike() -> None:
    pod_scheduler = a_judge("AWSNeuron")
    ask(pod_scheduler, 2)
    for name, type_ in (("n1", "inf2.24xlarge"), ("n2", "trn1.32xlarge")):
        facts = {"cores per device": 2, "instance type": type_}
        pod_scheduler.cluster_state.register(name, "AWSNeuron", NodeCards(a_node(name, "AWSNeuron").cards, facts=facts))
    ask(pod_scheduler, 2)
    for name in ("n1", "n2"):
        hold(pod_scheduler, f"{name}-3")
    # Only nodes of this type give two neighbours: the others give one card, four, eight or sixteen.
    assert [name for name, _ in ask(pod_scheduler, 2).fitting.best_first(3)] == ["n1", "n0"]


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
@settings(max_examples=25)
@given(
    policy=st.sampled_from(["spread", "binpack", "fragmentation"]),
    changes=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(ASKED), st.integers(0, CARDS - 1), st.sampled_from([1, 2, 4])),
        min_size=4,
        max_size=12,
    ),
)
def test_remembered_answers_are_those_of_a_fresh_look(
    word: str, policy: str, changes: list[tuple[int, str, int, int]]
) -> None:
    pod_scheduler, fresh = a_judge(word, policy), a_judge(word, policy)
    for step, (kind, node, at, cards) in enumerate(changes):
        for one in (pod_scheduler, fresh):
            if kind == 1:
                one.cluster_state.forget(f"by-{step - 2}")
            else:
                break_or_hold(one, word, f"{node}-{at}", breaks=kind == 0, by=f"by-{step}", memory_mib=98304 // cards)
        fresh.by_vendor[word].forget_all()
        remembered, anew = ask(pod_scheduler, cards), ask(fresh, cards)
        assert (remembered.node, remembered.shares) == (anew.node, anew.shares)
        assert remembered.fitting.best_first(3) == anew.fitting.best_first(3)
        assert {n: r.text for n, r in remembered.refusals.items()} == {n: r.text for n, r in anew.refusals.items()}


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
@settings(max_examples=15)
@given(
    policy=st.sampled_from(["spread", "binpack", "fragmentation"]),
    rounds=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 0xFFF), st.integers(0, CARDS - 1), st.sampled_from([1, 2, 4])),
        min_size=3,
        max_size=8,
    ),
)
def test_after_many_nodes_changed_answers_are_those_of_a_fresh_look(
    word: str, policy: str, rounds: list[tuple[int, int, int, int]]
) -> None:
    pod_scheduler, fresh = a_judge(word, policy), a_judge(word, policy)
    for kind, bits, at, cards in rounds:
        changing = [node for place, node in enumerate(NODES) if bits >> place & 1]
        for one in (pod_scheduler, fresh):
            for node in changing:
                if kind == 1:
                    one.cluster_state.forget(f"by-{node}")
                    continue
                break_or_hold(one, word, f"{node}-{at}", breaks=kind == 0, by=f"by-{node}", memory_mib=98304 // cards)
        fresh.by_vendor[word].forget_all()
        remembered, anew = (one.decide(demands(one, cards), NODES, explain=True) for one in (pod_scheduler, fresh))
        assert (remembered.node, remembered.shares) == (anew.node, anew.shares)
        assert remembered.fitting.best_first(12) == anew.fitting.best_first(12)
        assert {name: refusal.text for name, refusal in remembered.refusals.items()} == {
            name: refusal.text for name, refusal in anew.refusals.items()
        }
