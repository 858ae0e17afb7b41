"""Remembered verdicts: counted in nodes looked at, not in seconds (architecture, "remembered verdicts")."""

import copy
import dataclasses

import pytest
from builders import Engine, card, pod
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.state.card_table import NodeCards


def a_cluster(nodes: int) -> Engine:
    return Engine({f"n{number}": [card(f"GPU-{number}")] for number in range(nodes)}, node_policy="spread")


def refits(engine: Engine) -> int:
    return sum(verdicts.refits for verdicts in engine.vendor_scheduler.filter_cache.all())


def looks(engine: Engine) -> int:
    return sum(verdicts.looks for verdicts in engine.vendor_scheduler.filter_cache.all())


def without_memory(engine: Engine) -> Engine:
    """The same cluster, asked by somebody who remembers nothing."""
    twin = copy.copy(engine)
    twin.vendor_scheduler = dataclasses.replace(engine.vendor_scheduler)
    return twin


def test_repeated_shape_looks_only_at_nodes_that_changed() -> None:
    engine = a_cluster(100)
    engine.place(pod(name="first", gpu=1, gpumem=10, gpucores=1))
    before = refits(engine)
    engine.place(pod(name="second", gpu=1, gpumem=10, gpucores=1))
    assert refits(engine) - before == 1


def test_repeated_shape_looks_only_at_the_card_that_changed() -> None:
    engine = Engine({f"n{number}": [card(f"GPU-{number}-{place}") for place in range(8)] for number in range(100)})
    for name in ("first", "second"):
        engine.place(pod(name=name, gpu=1, gpumem=10, gpucores=1))
    before = looks(engine)
    engine.place(pod(name="third", gpu=1, gpumem=10, gpucores=1))
    assert looks(engine) - before == 1


def test_name_of_the_pod_does_not_make_a_new_shape() -> None:
    engine = a_cluster(3)
    for name in ("a", "b", "c"):
        engine.decide(pod(name=name, gpu=1, gpumem=10))
    assert len(engine.vendor_scheduler.filter_cache.all()) == 1


SIZES = st.integers(1, 40)


@given(st.lists(st.tuples(st.integers(0, 3), SIZES, st.integers(0, 3)), max_size=15))
def test_remembered_answers_are_those_of_a_fresh_look(changes) -> None:
    engine = Engine({f"n{number}": [card(f"GPU-{number}", memory_mib=100)] for number in range(4)})
    for step, (node, memory_mib, kind) in enumerate(changes):
        if kind == 0:
            engine.cluster.register(f"n{node}", NodeCards(()))
        elif kind == 1:
            cards = tuple(card(f"GPU-{node}-{i}", memory_mib=memory_mib) for i in range(memory_mib % 3 + 1))
            engine.cluster.register(f"n{node}", NodeCards(cards))
        else:
            engine.place(pod(name=f"p{step}", gpu=1, gpumem=memory_mib, gpucores=1))
        asked = pod(name="asked", gpu=1, gpumem=20, gpucores=1)
        names = tuple(f"n{number}" for number in range(4))
        remembered = engine.decide(asked, *names, explain=True)
        has_capacity = engine.has_capacity(asked)
        engine.vendor_scheduler.forget_all()
        fresh = engine.decide(asked, *names, explain=True)
        assert (remembered.node, remembered.shares) == (fresh.node, fresh.shares)
        assert has_capacity == (fresh.node is not None)
        assert {n: r.text for n, r in remembered.refusals.items()} == {n: r.text for n, r in fresh.refusals.items()}


def a_cluster_beside_many_small_nodes(policy: str) -> Engine:
    """Three nodes of three cards that are asked for, so few of all nodes that what changes is looked at singly."""
    small = {f"small-{number}": [card(f"GPU-small-{number}", memory_mib=1)] for number in range(120)}
    large = {f"n{n}": [card(f"GPU-{n}-{i}", memory_mib=100, numa=i % 2, index=i) for i in range(3)] for n in range(3)}
    return Engine({**small, **large}, node_policy=policy)


@pytest.mark.slow
@given(
    st.sampled_from(["spread", "binpack", "fragmentation"]),
    st.lists(st.tuples(st.integers(0, 4), SIZES, st.integers(1, 2)), min_size=2, max_size=12),
)
def test_answers_about_single_cards_are_those_of_a_fresh_look(policy, changes) -> None:
    engine = a_cluster_beside_many_small_nodes(policy)
    for step, (kind, memory_mib, cards) in enumerate(changes):
        if kind == 0:
            engine.cluster.forget(f"uid-p{step // 2}")
        elif kind == 1:
            healthy = [card(f"GPU-0-{i}", memory_mib=100, healthy=bool(memory_mib >> i & 1)) for i in range(3)]
            engine.cluster.register("n0", NodeCards(tuple(healthy)))
        else:
            engine.place(pod(name=f"p{step}", gpu=cards, gpumem=memory_mib, gpucores=1))
        asked = pod(name="asked", gpu=cards, gpumem=20, gpucores=1)
        names = tuple(f"n{number}" for number in range(3))
        remembered = engine.decide(asked, *names, explain=True)
        fresh = without_memory(engine).decide(asked, *names, explain=True)
        assert (remembered.node, remembered.shares) == (fresh.node, fresh.shares)
        assert {n: r.text for n, r in remembered.refusals.items()} == {n: r.text for n, r in fresh.refusals.items()}


def test_when_many_nodes_changed_all_are_looked_at_together() -> None:
    engine = a_cluster(100)
    asked = pod(name="asked", gpu=1, gpumem=10)
    engine.decide(asked)
    before = refits(engine), looks(engine)
    for number in range(20):
        engine.hold(f"n{number}", f"GPU-{number}", memory_mib=10)
    engine.decide(asked)
    assert (refits(engine) - before[0], looks(engine) - before[1]) == (100, 0)


def a_rack(healthy: int = 0xFF, cordoned: int = 0) -> dict[str, NodeCards]:
    """Eight nodes of two cards with two slots; bits say whose first card is healthy and whose is cordoned."""
    return {
        f"n{n}": NodeCards(
            (card(f"GPU-{n}-0", count=2, memory_mib=100, healthy=bool(healthy >> n & 1)), card(f"GPU-{n}-1", count=2)),
            cordoned=frozenset({f"GPU-{n}-0"} if cordoned >> n & 1 else ()),
        )
        for n in range(8)
    }


BITS = st.integers(0, 0xFF)


@given(st.lists(st.tuples(st.integers(0, 3), BITS, SIZES), min_size=2, max_size=10))
def test_answers_after_changes_of_many_nodes_are_those_of_a_fresh_look(changes) -> None:
    engine = Engine({})
    for name, cards in a_rack().items():
        engine.cluster.register(name, cards)
    for kind, bits, memory_mib in changes:
        chosen = [n for n in range(8) if bits >> n & 1]
        for n in chosen:
            if kind == 0:
                engine.cluster.register(f"n{n}", a_rack(healthy=memory_mib, cordoned=bits)[f"n{n}"])
            elif kind == 1:
                engine.cluster.forget(f"holder-{n}")
            else:
                engine.hold(f"n{n}", f"GPU-{n}-{kind % 2}", memory_mib=memory_mib, slots=kind - 1, by=f"holder-{n}")
        # One that is asked again and again, and one that nobody asked before.
        for asked in (pod(name="asked", gpu=2, gpumem=80), pod(name="new", gpu=1, gpumem=memory_mib + 60)):
            remembered = engine.decide(asked, explain=True)
            fresh = without_memory(engine).decide(asked, explain=True)
            assert (remembered.node, remembered.shares) == (fresh.node, fresh.shares)
            assert {n: r.text for n, r in remembered.refusals.items()} == {n: r.text for n, r in fresh.refusals.items()}


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["n0", "n1", "n2", "n3"]), SIZES), min_size=4, max_size=30)
)
def test_nodes_that_come_where_others_left_are_decided_on_as_in_a_cluster_that_never_had_these(changes) -> None:
    engine, there, held = Engine({}), dict[str, int](), dict[str, int]()
    for kind, name, memory_mib in changes:
        if kind < 3:
            engine.cluster.register(name, NodeCards(tuple(card(f"{name}-{at}", memory_mib=100) for at in range(kind))))
            there[name] = kind
        elif there.get(name) and name not in held:
            engine.hold(name, f"{name}-0", memory_mib=memory_mib, by=f"holder-{name}")
            held[name] = memory_mib
        fresh = Engine({})
        for known, count in there.items():
            fresh.cluster.register(
                known, NodeCards(tuple(card(f"{known}-{at}", memory_mib=100) for at in range(count)))
            )
        for holder, used_mib in held.items():
            fresh.hold(holder, f"{holder}-0", memory_mib=used_mib, by=f"holder-{holder}")
        asked, names = pod(name="asked", gpu=1, gpumem=60), tuple(sorted(there))
        one, other = engine.decide(asked, *names, explain=True), fresh.decide(asked, *names, explain=True)
        assert (one.node, one.shares) == (other.node, other.shares)
        assert {n: r.text for n, r in one.refusals.items()} == {n: r.text for n, r in other.refusals.items()}


def test_nodes_that_come_and_go_take_no_more_rows_than_are_there_at_once() -> None:
    engine = Engine({})
    for number in range(100):
        engine.cluster.register(f"n{number % 7}", NodeCards((card("a"), card("b"))))
        engine.cluster.register(f"n{number % 7}", NodeCards(()))
    assert len(engine.cluster.table.uuids) == 2
