"""Reservations: what is held, and the only ways in which that changes (binding 2.2, scheduler 4.5)."""

from builders import Engine, card, container, pod
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.demand import Phase
from gpuloom.engine.usage import Usage, collapse
from gpuloom.model.share import Share


def used(engine: Engine, uuid: str, node: str = "n1") -> Usage:
    table = engine.cluster.table
    row = table.row(node, uuid)
    assert row is not None
    cards = table.cards
    return Usage(int(cards.used_slots[row]), int(cards.used_memory_mib[row]), int(cards.used_cores[row]))


def a_node() -> Engine:
    return Engine({"n1": [card("GPU-0")]})


def test_next_decision_sees_what_was_assumed() -> None:
    engine = Engine({"n1": [card("GPU-0", memory_mib=1000)]})
    engine.place(pod(name="first", gpu=1, gpumem=600, gpucores=1))
    assert engine.why(pod(name="second", gpu=1, gpumem=600, gpucores=1)) == "1/1 CardInsufficientMemory"


def test_forgetting_is_safe_to_do_twice() -> None:
    engine = a_node()
    engine.hold("n1", "GPU-0", memory_mib=5, by="x")
    assert (engine.cluster.forget("x"), engine.cluster.forget("x")) == (True, False)


def test_assuming_again_supersedes_under_a_new_number() -> None:
    engine = a_node()
    first = engine.reserve("x", "n1", [(Share("GPU-0", "NVIDIA", 5, 1),)])
    engine.reserve("x", "n1", [(Share("GPU-0", "NVIDIA", 7, 1),)])
    assert not engine.cluster.ledger.is_current(first)
    assert used(engine, "GPU-0") == Usage(1, 7, 1)


def test_ended_init_containers_give_back_what_only_they_held() -> None:
    engine = a_node()
    asked = pod(container("c", gpu=1, gpumem=10), init=[container("i", gpu=1, gpumem=100)])
    engine.reserve("x", "n1", [(Share("GPU-0", "NVIDIA", 100, 50),), (Share("GPU-0", "NVIDIA", 10, 5),)], of=asked)
    assert used(engine, "GPU-0") == Usage(1, 100, 50)
    engine.cluster.end_init("x")
    assert used(engine, "GPU-0") == Usage(1, 10, 5)


def test_usage_of_a_node_that_registers_later_is_not_lost() -> None:
    engine = Engine({})
    engine.hold("n1", "GPU-0", memory_mib=500)
    from gpuloom.engine.table import NodeCards

    engine.cluster.register("n1", NodeCards((card("GPU-0"),)))
    assert used(engine, "GPU-0").memory_mib == 500


def test_card_in_three_regular_containers_takes_three_slots() -> None:
    shares = [(Share("GPU-0", "NVIDIA", 1, 1),)] * 3
    assert collapse(shares, [Phase.REGULAR] * 3) == {"GPU-0": Usage(3, 3, 3)}


AMOUNTS = st.integers(0, 100)
HOLDS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["GPU-0", "GPU-1"]), AMOUNTS, AMOUNTS), max_size=12)


@given(HOLDS, st.randoms(use_true_random=False))
def test_whatever_is_assumed_and_forgotten_in_any_order_leaves_nothing(holds, random) -> None:
    engine = Engine({"n1": [card("GPU-0"), card("GPU-1", index=1)]})
    for uid, uuid, memory_mib, cores in holds:
        engine.hold("n1", uuid, memory_mib=memory_mib, cores=cores, by=uid)
    for uid in random.sample("abcd", 4):
        engine.cluster.forget(uid)
    assert (used(engine, "GPU-0"), used(engine, "GPU-1")) == (Usage(), Usage())
    assert engine.cluster.ledger.namespace_usage("other", "NVIDIA") == Usage()
