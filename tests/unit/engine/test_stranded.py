"""What is free and of no use to pods to come, node by node, and why (placement quality 3)."""

from collections import Counter
from collections.abc import Sequence

import pytest
from builders import Engine, card
from oracle.fragmentation import Pod
from unit.engine.test_fragmentation_policy import asking, shape_of

from gpuloom.engine.filtering.stranded import StrandedByNode, StrandedShares
from gpuloom.engine.scoring.fragmentation.pod_mix import PodMix
from gpuloom.engine.state.outlook import HostCpu

CARDLESS = Pod(2000, 0, 0)


def engine_of(pods: Sequence[Pod], cards: int = 1) -> Engine:
    """One node n of 8 free cores; a pod was placed by the policy, and left again."""
    engine = Engine({"n": [card(f"c{place}", memory_mib=100_000) for place in range(cards)]})
    engine.cluster.table.outlook.expect(PodMix(Counter(map(shape_of, pods))))
    set_cpu(engine, HostCpu(8000, 64000))
    engine.decide(asking("p", Pod(0, 100, 1)))
    return engine


def set_cpu(engine: Engine, cpu: HostCpu | None) -> None:
    engine.cluster.table.outlook.set_cpu("n", cpu)
    engine.cluster.table.note_cpu("n")


def list_stranded(engine: Engine) -> StrandedByNode:
    found = engine.vendor_scheduler.filter_cache.list_stranded(engine.cluster.table)
    assert found is not None
    return found


def near(**shares: float) -> object:
    return pytest.approx(StrandedShares(**{name: shares.get(name, 0.0) for name in StrandedShares._fields}))


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([Pod(8000, 500, 1)], near(free=1)),
        ([Pod(9000, 500, 1)], near(free=1, no_cpu=1)),
        ([Pod(8000, 500, 1), Pod(9000, 500, 1)], near(free=1, no_cpu=0.5)),
        ([Pod(1000, 1000, 2)], near(free=1, pieces=1)),
        ([Pod(1000, 500, 1, "elsewhere")], near(free=1, other_models=1)),
        ([Pod(1000, 500, 1), CARDLESS], near(free=1, no_cards=0.5)),
        ([Pod(9000, 500, 1, "elsewhere"), CARDLESS], near(free=1, other_models=0.5, no_cards=0.5)),
    ],
)
def test_what_is_stranded_is_told_by_cause(pods: list[Pod], expected: object) -> None:
    assert list_stranded(engine_of(pods)).node("n") == expected


def test_of_cards_in_part_what_is_too_small_is_stranded() -> None:
    engine = engine_of([Pod(1000, 500, 1)], cards=2)
    engine.hold("n", "c0", memory_mib=70_000, cores=70)
    assert list_stranded(engine).node("n") == near(free=1.3, pieces=0.3)


def test_the_causes_of_all_nodes_add_up_to_the_measure() -> None:
    engine = engine_of(
        [Pod(9000, 300, 1), Pod(4000, 810, 1), Pod(4000, 1000, 2), Pod(1000, 500, 1, "x"), CARDLESS], cards=3
    )
    engine.hold("n", "c1", memory_mib=40_000, cores=40)
    measured = engine.vendor_scheduler.filter_cache.measure_stranded(engine.cluster.table)
    assert measured is not None
    assert 0 < measured < list_stranded(engine).total().free
    assert list_stranded(engine).total().stranded == pytest.approx(measured)


def test_where_cpu_is_not_known_none_is_missing() -> None:
    engine = engine_of([Pod(9000, 500, 1)])
    set_cpu(engine, None)
    assert list_stranded(engine).node("n").no_cpu == 0


def test_nothing_is_known_before_a_pod_was_placed_by_the_policy() -> None:
    engine = Engine({"n": [card("c0")]})
    assert engine.vendor_scheduler.filter_cache.list_stranded(engine.cluster.table) is None
