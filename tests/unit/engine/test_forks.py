"""A fork is as the cluster is, goes its own way, and is asked the same questions."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from builders import NVIDIA, card, container, pod
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.request.demand import read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.closings import Closing
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.model.nodecards import NodeCards
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import Catalog, load_default_profiles, make_catalog
from gpuloom.wire.objects import ResourceQuota

NODES = ("n1", "n2", "n3")
CATALOG = make_catalog([NVIDIA])


def reservation(uid: str, node: str, memory_mib: int, namespace: str = "default") -> Reservation:
    share = Share(f"{node}-0", "NVIDIA", memory_mib, 10)
    return Reservation(
        uid=uid,
        namespace=namespace,
        name=uid,
        node=node,
        shares={"NVIDIA": ((share,),)},
        container_types=(),
        status=ReservationStatus.ASSUMED,
        since=0.0,
    )


def a_state() -> ClusterState:
    state = ClusterState(CATALOG)
    for node in NODES:
        state.register(node, "NVIDIA", NodeCards((card(f"{node}-0"), card(f"{node}-1", index=1))))
        state.assume(reservation(f"on-{node}", node, 4000))
    return state


Change = Callable[[ClusterState], Any]
CHANGES = st.lists(
    st.one_of(
        st.builds(
            lambda number, node, mib: lambda state: state.assume(reservation(f"p{number}", node, mib)),
            st.integers(0, 3),
            st.sampled_from(NODES),
            st.integers(1, 9000),
        ),
        st.sampled_from(NODES).map(lambda node: lambda state: state.forget(f"on-{node}")),
        st.sampled_from(NODES).map(lambda node: lambda state: state.confirm(f"on-{node}")),
        st.sampled_from(NODES).map(lambda node: lambda state: state.register(node, "NVIDIA", NodeCards(()))),
        st.sampled_from(["n1", "n4"]).map(
            lambda node: lambda state: state.register(node, "NVIDIA", NodeCards((card(f"{node}-9", model="X"),)))
        ),
        st.sampled_from(NODES).map(lambda node: lambda state: state.close(Closing("h", "ns", "h", node, "why"))),
        st.just(lambda state: state.reopen("h")),
    ),
    max_size=8,
)


def observe(state: ClusterState) -> Any:
    """All that can be read of a state, and what it decides."""
    table = state["NVIDIA"].table
    names = tuple(sorted(state.nodes))
    asked = read_demands(pod(gpu=1, gpumem=5000), CATALOG, Options())
    decision = PodScheduler(state, Options()).decide(asked, names, explain=True)
    return (
        names,
        {name: [column[table.rows_of(table.positions[name])].tolist() for column in columns(table)] for name in names},
        {name: state.score_of(name) for name in names},
        sorted((held.uid, held.node, held.number, held.status.value) for held in state.ledger),
        state.ledger.namespace_usage("default", "NVIDIA"),
        sorted(closing.node for closing in state.closings_in_effect()),
        (decision.node, decision.shares, {name: refusal.text for name, refusal in decision.refusals.items()}),
    )


def columns(table: Any) -> list[Any]:
    cards = table.cards
    return [cards.used_slots, cards.used_memory_mib, cards.used_cores, cards.cordoned, cards.index, cards.healthy]


@given(CHANGES)
@settings(max_examples=60)
def test_what_happens_in_a_fork_does_not_show_outside(changes: list[Change]) -> None:
    state = a_state()
    before = observe(state)
    fork = state.fork()
    for change in changes:
        change(fork)
    assert observe(state) == before


@given(CHANGES)
@settings(max_examples=60)
def test_what_happens_outside_does_not_show_in_a_fork(changes: list[Change]) -> None:
    state = a_state()
    fork = state.fork()
    before = observe(fork)
    for change in changes:
        change(state)
    assert observe(fork) == before


@given(CHANGES, CHANGES)
@settings(max_examples=60)
def test_a_fork_goes_on_as_the_cluster_itself_would(earlier: list[Change], later: list[Change]) -> None:
    state = a_state()
    for change in earlier:
        change(state)
    fork = state.fork()
    for change in later:
        change(state)
        change(fork)
    assert observe(fork) == observe(state)


@given(CHANGES, st.sampled_from(NODES))
@settings(max_examples=60)
def test_a_fork_of_one_node_has_that_node_alone_as_it_is(changes: list[Change], node: str) -> None:
    state = a_state()
    for change in changes:
        change(state)
    whole, alone = state.fork(), state.fork((node,))
    for other in set(whole.nodes) - {node}:
        whole.register(other, "NVIDIA", NodeCards(()))
    held = {one.uid for one in whole.ledger.on_node(node)}
    assert {one.uid for one in alone.ledger} == held
    assert observe(alone)[:3] == observe(whole)[:3]
    assert alone.ledger.namespace_usage("default", "NVIDIA") == state.ledger.namespace_usage("default", "NVIDIA")


TWO_CONTAINERS = read_demands(
    pod(*(container(name, gpu=1, gpumem=6000) for name in ("one", "two"))), CATALOG, Options()
)


def decide_to_the_end(scheduler: PodScheduler) -> Any:
    decision = scheduler.decide(TWO_CONTAINERS, (*NODES, "n4"), explain=True)
    return decision.fitting.worst_first(), {name: one.text for name, one in decision.refusals.items()}


@given(CHANGES, CHANGES, CHANGES)
@settings(max_examples=60)
def test_a_fork_knows_of_pods_of_several_containers_what_was_so_when_it_was_made(
    earlier: list[Change], outside: list[Change], inside: list[Change]
) -> None:
    live = PodScheduler(a_state(), Options())
    decide_to_the_end(live)
    for change in earlier:
        change(live.cluster_state)
    fork, fresh = live.fork(), PodScheduler(live.cluster_state.fork(), Options())
    for change in outside:
        change(live.cluster_state)
    decide_to_the_end(live)
    for change in inside:
        change(fork.cluster_state)
        change(fresh.cluster_state)
    assert decide_to_the_end(fork) == decide_to_the_end(fresh)


ALL = Catalog(tuple(load_default_profiles()))
SEVERAL = ("NVIDIA", "DCU", "Metax-SGPU")
SEVERAL_CHANGES = st.lists(
    st.one_of(
        st.builds(
            lambda node, word, count: (
                lambda state: state.register(
                    node, word, NodeCards(tuple(card(f"{node}-{at}", index=at) for at in range(count)))
                )
            ),
            st.sampled_from(NODES),
            st.sampled_from(SEVERAL),
            st.integers(0, 2),
        ),
        st.builds(
            lambda node, word, mib: lambda state: state.assume(hold(f"{word}-on-{node}", node, word, mib)),
            st.sampled_from(NODES),
            st.sampled_from(SEVERAL),
            st.integers(1, 9000),
        ),
        st.builds(
            lambda node, word: lambda state: state.forget(f"{word}-on-{node}"),
            st.sampled_from(NODES),
            st.sampled_from(SEVERAL),
        ),
    ),
    max_size=10,
)


def hold(uid: str, node: str, word: str, memory_mib: int) -> Reservation:
    shares = {word: ((Share(f"{node}-0", word, memory_mib, 10),),)}
    return msgspec.structs.replace(reservation(uid, node, memory_mib), shares=shares)


def used_of_each(state: ClusterState, node: str) -> Any:
    """What is used of a node's cards of each vendor, and the node's score."""
    tables = {word: state[word].table for word in SEVERAL}
    used = {
        word: [column[table.rows_of(table.positions[node])].tolist() for column in columns(table)]
        for word, table in tables.items()
        if node in table.positions
    }
    return used, state.score_of(node) if state.has(node) else None, state.is_plain(node)


@given(SEVERAL_CHANGES, SEVERAL_CHANGES, st.sampled_from(NODES))
@settings(max_examples=60)
def test_cards_of_several_vendors_come_and_go_in_a_fork_of_one_node_as_in_one_of_all(
    earlier: list[Change], later: list[Change], node: str
) -> None:
    state = ClusterState(ALL)
    for change in earlier:
        change(state)
    whole, alone = state.fork(), state.fork((node,))
    for change in later:
        change(whole)
        change(alone)
    assert used_of_each(alone, node) == used_of_each(whole, node)


def test_a_fork_of_one_node_makes_tables_only_for_the_vendors_there() -> None:
    state = ClusterState(ALL)
    state.register("n1", "DCU", NodeCards((card("n1-0"),)))
    state.register("n2", "NVIDIA", NodeCards((card("n2-0"),)))
    assert [list(table.positions) for table in state.fork(("n1",)).tables] == [["n1"]]


@pytest.mark.parametrize("nodes", [None, ("n1",)])
def test_a_fork_is_gone_with_its_last_user_without_the_garbage_collector(nodes: tuple[str, ...] | None) -> None:
    scheduler = PodScheduler(a_state(), Options())
    fork = scheduler.fork(nodes)
    assert fork.decide(read_demands(pod(gpu=1, gpumem=5000), CATALOG, Options()), ("n1",)).node == "n1"
    gone = weakref.ref(fork.cluster_state)
    gc.disable()
    try:
        del fork
        assert gone() is None
    finally:
        gc.enable()


def limit(state: ClusterState, name: str, memory_mib: int) -> None:
    hard = {"limits.nvidia.com/gpumem": str(memory_mib)}
    quota = {"metadata": {"name": name, "namespace": "default"}, "spec": {"hard": hard}}
    state.quotas.apply(msgspec.convert(quota, ResourceQuota))


def test_a_quota_that_comes_in_a_fork_never_counts_outside_and_none_from_outside_in_a_fork() -> None:
    state = a_state()
    limit(state, "both", 9000)
    fork = state.fork(("n1",))
    limit(fork, "inside", 5000)
    limit(state, "outside", 7000)
    for one in (state, fork):
        limit(one, "both", 8000)
    (outside,), (inside,) = (one.quotas.limits("default").values() for one in (state, fork))
    assert (outside, inside) == (7000, 5000)


def test_quotas_count_in_a_fork_of_one_node_what_namespaces_hold_elsewhere() -> None:
    state = a_state()
    limit(state, "q", 13_000)
    alone = PodScheduler(state.fork(("n1",)), Options())
    asked = read_demands(pod(gpu=1, gpumem=2000), CATALOG, Options())
    assert alone.decide(asked, ("n1",)).node is None
    alone.cluster_state.forget("on-n1")
    assert alone.decide(asked, ("n1",)).node == "n1"


@pytest.mark.parametrize("nodes", [(), ("unknown",)])
def test_a_fork_of_no_known_node_is_empty(nodes: tuple[str, ...]) -> None:
    fork = a_state().fork(nodes)
    assert (list(fork.nodes), list(fork.ledger)) == ([], [])


def test_what_closes_a_node_is_not_in_a_fork_without_it() -> None:
    state = a_state()
    state.close(Closing("h", "ns", "h", "n1", "why"))
    fork = state.fork(nodes=("n2",))
    fork.register("n1", "NVIDIA", NodeCards((card("n1-0"),)))
    assert not list(fork.closings)
    assert PodScheduler(fork, Options()).decide(read_demands(pod(gpu=1), CATALOG, Options()), ("n1",)).node == "n1"
