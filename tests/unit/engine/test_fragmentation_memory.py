"""What ``fragmentation`` remembers: few cards are read anew, and ranks are those of a look at everything."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from builders import NVIDIA, Engine, card, cards_of
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.filtering.compiled_profile import compile_profile
from gpuloom.engine.filtering.fragmentation_ranks import FragmentationRanks
from gpuloom.engine.scoring.fragmentation.pod_mix import ExpectedShape, PodMix
from gpuloom.engine.state.outlook import HostCpu
from gpuloom.wire.objects import Container, ObjectMeta, Pod, PodSpec, Resources

NODES, CARDS = 30, 8
MOST_MIB, MOST_CPU = 16_384, 64_000


def a_cluster(expected: list[ExpectedShape]) -> Engine:
    nodes = {f"n{at}": [card(f"{at}-{i}", index=i, memory_mib=MOST_MIB) for i in range(CARDS)] for at in range(NODES)}
    engine = Engine(nodes, node_policy="fragmentation", card_policy="fragmentation")
    if expected:
        engine.cluster.table.outlook.expect(PodMix(Counter(expected)))
    for at in range(NODES):
        tell_cpu(engine, at, MOST_CPU)
    return engine


def tell_cpu(engine: Engine, at: int, free: int) -> None:
    table = engine.cluster.table
    table.outlook.set_cpu(f"n{at}", HostCpu(free, MOST_CPU))
    table.note_cpu(f"n{at}")


def asking(name: str, *, gpu: int = 1, gpumem: int = 5000, cpu: str = "4") -> Pod:
    limits: dict[str, Any] = {"nvidia.com/gpu": gpu, "nvidia.com/gpumem": gpumem, "nvidia.com/gpucores": 20}
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"),
        spec=PodSpec(containers=[Container(name="main", resources=Resources(limits=limits, requests={"cpu": cpu}))]),
    )


def count_work(engine: Engine) -> tuple[int, int, int]:
    """Cards that were looked at, readings of many nodes, and nodes whose costs were worked out, so far."""
    ranks = engine.vendor_scheduler.filter_cache.all()[-1].ranks_of_all
    assert isinstance(ranks, FragmentationRanks)
    return ranks.view.looks, ranks.view.readings, ranks.worked_out


def work_of(engine: Engine, asked: Pod) -> tuple[int, ...]:
    before = count_work(engine)
    engine.decide(asked)
    return tuple(now - then for now, then in zip(count_work(engine), before, strict=True))


def test_a_repeated_shape_looks_at_the_card_that_changed_alone_and_remembers_what_its_node_costs() -> None:
    engine = a_cluster([])
    for _ in range(2):
        engine.place(asking("first"))
        engine.decide(asking("warming"))
        engine.cluster.forget("uid-first")
        engine.decide(asking("warming"))
    assert work_of(engine, asking("asked")) == (0, 0, 0)
    engine.place(asking("first"))
    assert work_of(engine, asking("asked")) == (1, 0, 0)
    engine.cluster.forget("uid-first")
    assert work_of(engine, asking("asked")) == (1, 0, 0)


def test_when_the_free_cpu_of_a_node_changes_none_of_its_cards_is_looked_at_again() -> None:
    engine = a_cluster([])
    engine.decide(asking("warming"))
    tell_cpu(engine, 3, 8000)
    engine.decide(asking("warming"))
    tell_cpu(engine, 3, 9000)
    assert work_of(engine, asking("asked")) == (0, 0, 1)
    tell_cpu(engine, 3, 8000)
    assert work_of(engine, asking("asked")) == (0, 0, 0)


def without_memory(engine: Engine) -> Engine:
    fresh = Engine({}, node_policy="fragmentation", card_policy="fragmentation")
    fresh.cluster = engine.cluster
    fresh.vendor_scheduler = VendorScheduler(engine.cluster, compile_profile(NVIDIA, engine.options), engine.options)
    return fresh


EXPECTED = st.lists(
    st.builds(
        ExpectedShape,
        st.just(NVIDIA.word),
        st.sampled_from([1000, 9000, 32_000]),
        st.sampled_from([1, 1, 2, 8]),
        memory_mib=st.sampled_from([3000, 8000, MOST_MIB]),
        cores=st.sampled_from([0, 30, 100]),
    ),
    max_size=6,
)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["pod", "pod", "gone", "cpu", "many"]), st.integers(0, NODES - 1), st.integers(1, 5)),
    min_size=1,
    max_size=15,
)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(EXPECTED, CHANGES)
def test_ranks_and_cards_are_those_of_a_fresh_look(
    expected: list[ExpectedShape], changes: list[tuple[str, int, int]]
) -> None:
    engine = a_cluster(expected)
    for step, (what, at, size) in enumerate(changes):
        if what == "pod":
            engine.place(asking(f"p{step}", gpumem=2500 * size))
        elif what == "gone":
            engine.cluster.forget(f"uid-p{step - size}")
        else:
            for some in range(at, at + 1 if what == "cpu" else NODES):
                tell_cpu(engine, some, 4000 * size)
        asked = asking("asked", gpu=1 + size // 4, cpu=str(size))
        remembered, fresh = engine.decide(asked), without_memory(engine).decide(asked)
        assert (remembered.node, cards_of(remembered)) == (fresh.node, cards_of(fresh))
        assert remembered.fitting.best_first(99) == fresh.fitting.best_first(99)


@pytest.mark.parametrize("seed", range(4))
def test_ranks_follow_what_large_pods_charge_up_and_down(seed: int) -> None:
    random = Random(seed)
    engine = a_cluster([ExpectedShape(NVIDIA.word, 9000, cards, memory_mib=8000) for cards in (1, 1, 1, 8)])
    for at in range(NODES):
        tell_cpu(engine, at, random.randrange(12_000, MOST_CPU))
    placed: list[str] = []
    for step in range(120):
        if len(placed) > random.randrange(20):
            engine.cluster.forget(f"uid-{placed.pop(random.randrange(len(placed)))}")
        else:
            placed.append(f"p{step}")
            engine.place(asking(placed[-1], gpumem=random.choice([1000, 9000])), f"n{random.randrange(3)}")
        remembered = engine.decide(asking("asked"))
        if step % 4 == 0:
            fresh = without_memory(engine).decide(asking("asked"))
            assert cards_of(remembered) == cards_of(fresh)
            assert remembered.fitting.best_first(99) == fresh.fitting.best_first(99)
