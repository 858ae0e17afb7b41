"""What the quotas of a namespace leave it of cards, whoever made how many of them (scheduler 6.10, trust T-02)."""

import time
import tracemalloc

import pytest
from builders import Engine, card, pod

from gpuloom.engine.state.quotas import MOST_IN_NAMESPACE
from gpuloom.wire.objects import ObjectMeta, Pod, Quantity, ResourceQuota, ResourceQuotaSpec

MEMORY = "limits.nvidia.com/gpumem"
FOREIGN: dict[str, Quantity] = {f"limits.x.io/{number}": "1" for number in range(50_000)}
"""As many as fit into an object."""
DECISIONS = 20
LONGEST_S = 0.1
"""Decisions without quotas take a tenth of it on a slow machine; all foreign limits read each time, they took 20 s."""


def quota(name: str, memory_mib: int | None = None, **foreign: Quantity) -> ResourceQuota:
    hard: dict[str, Quantity] = dict(foreign) if memory_mib is None else {**foreign, MEMORY: str(memory_mib)}
    return ResourceQuota(ObjectMeta(name=name, namespace="default"), ResourceQuotaSpec(hard))


def under(*quotas: ResourceQuota) -> Engine:
    engine = Engine({"n1": [card("A")]})
    for one in quotas:
        engine.cluster.quotas.apply(one)
    return engine


def limit(engine: Engine) -> int | None:
    return engine.cluster.quotas.limits("default").get("nvidia.com/gpumem")


def as_many_as_are_read(memory_mib: int) -> list[ResourceQuota]:
    return [quota(f"q{number}", memory_mib) for number in range(MOST_IN_NAMESPACE)]


def test_the_smallest_limit_counts() -> None:
    """B-43."""
    assert limit(under(quota("a", 300), quota("b", 100), quota("c", 200))) == 100


def test_the_limit_of_a_quota_that_is_gone_counts_no_more() -> None:
    engine = under(quota("a", 300), quota("b", 100))
    engine.cluster.quotas.delete(quota("b"))
    assert limit(engine) == 300


def test_a_raised_limit_counts_in_place_of_what_it_was() -> None:
    assert limit(under(quota("a", 300), quota("b", 100), quota("b", 200))) == 200


def test_a_limit_taken_out_of_a_quota_counts_no_more() -> None:
    assert limit(under(quota("a", 100), quota("a"))) is None


def test_a_quota_that_names_nothing_limits_nothing() -> None:
    """The API server takes one without ``spec.hard``."""
    named = ObjectMeta(name="a", namespace="default")
    assert limit(under(quota("a", 100), ResourceQuota(named, ResourceQuotaSpec(None)))) is None


def test_namespaces_whose_quotas_are_gone_take_no_memory() -> None:
    book = under().cluster.quotas
    tracemalloc.start()
    try:
        for number in range(2000):
            one = ResourceQuota(ObjectMeta(name="a", namespace=f"ns-{number}"), ResourceQuotaSpec({MEMORY: "100"}))
            book.apply(one)
            book.delete(one)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 100_000


def test_limits_of_what_is_no_card_are_not_kept() -> None:
    assert set(under(quota("a", 100, **FOREIGN)).cluster.quotas.limits("default")) == {"nvidia.com/gpumem"}


def test_a_decision_costs_no_more_under_quotas_with_many_foreign_limits() -> None:
    engine = under(*(quota(f"q{number}", 1000, **FOREIGN) for number in range(20)))
    before = time.thread_time()
    for _ in range(DECISIONS):
        engine.decide(pod(gpu=1, gpumem=500))
    assert time.thread_time() - before < LONGEST_S


def test_as_many_quotas_as_are_read_limit_as_they_say() -> None:
    assert limit(under(*as_many_as_are_read(300))) == 300


def test_a_namespace_with_more_quotas_than_are_read_gets_no_cards() -> None:
    engine = under(*as_many_as_are_read(5000), quota("one more", 5000))
    assert engine.why(pod(gpu=1, gpumem=1)) == "1/1 ResourceQuotaNotFit"


def test_a_namespace_opens_when_it_has_no_more_quotas_than_are_read() -> None:
    engine = under(*as_many_as_are_read(300), quota("one more", 200))
    engine.cluster.quotas.delete(quota("q0"))
    assert limit(engine) == 200


def test_quotas_that_limit_no_cards_are_not_among_those_that_are_read() -> None:
    assert limit(under(*(quota(f"q{number}") for number in range(MOST_IN_NAMESPACE)), quota("one more", 200))) == 200


def test_too_many_quotas_close_no_other_namespace() -> None:
    engine = under(*as_many_as_are_read(300), quota("one more", 200))
    assert not engine.cluster.quotas.limits("other")


def test_quotas_of_a_fork_are_its_own() -> None:
    engine = under(quota("a", 300))
    engine.cluster.quotas.fork().apply(quota("a", 100))
    assert limit(engine) == 300


@pytest.mark.parametrize("asked", [pod(gpu=1), pod(gpu=1, gpumem_percentage=100)])
def test_who_names_no_memory_gets_no_card_that_is_larger_than_the_quota(asked: Pod) -> None:
    assert under(quota("a", 16383)).why(asked) == "1/1 ResourceQuotaNotFit"
    assert under(quota("a", 16384)).decide(asked).node == "n1"
