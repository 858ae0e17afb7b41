"""Reservations: what is held, and the only ways in which that changes (binding 2.2, scheduler 4.5)."""

import tracemalloc
from collections.abc import Iterable

from builders import Engine, card, container, pod
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.request.demand import ContainerType
from gpuloom.engine.state.card_table import CardTable, NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Ledger, Reservation, ReservationStatus
from gpuloom.engine.state.usage import Usage, collapse
from gpuloom.model.mig import MigAllocation, MigPlacement
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import Catalog, load_default_profiles

A_SHARE = Share("GPU-0", "NVIDIA", 5, 1)


def used(engine: Engine, uuid: str, node: str = "n1") -> Usage:
    return used_of(engine.cluster.table, uuid, node)


def used_of(table: CardTable, uuid: str, node: str = "n1") -> Usage:
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


def test_names_of_nodes_and_namespaces_that_are_gone_take_no_memory() -> None:
    ledger = Ledger()
    tracemalloc.start()
    try:
        for number in range(2000):
            held = Reservation(
                "x", f"ns-{number}", "x", f"n-{number}", {"NVIDIA": ((A_SHARE,),)}, (), ReservationStatus.CONFIRMED, 0.0
            )
            ledger.assume(held)
            ledger.forget("x")
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not ledger.namespaces
    assert grown < 100_000


def test_assuming_again_supersedes_under_a_new_number() -> None:
    engine = a_node()
    first = engine.reserve("x", "n1", [(Share("GPU-0", "NVIDIA", 5, 1),)])
    engine.reserve("x", "n1", [(Share("GPU-0", "NVIDIA", 7, 1),)])
    assert not engine.cluster.ledger.is_current(first)
    assert used(engine, "GPU-0") == Usage(1, 7, 1)


def test_a_reservation_that_was_ended_is_not_current() -> None:
    engine = a_node()
    held = engine.reserve("x", "n1", [(A_SHARE,)])
    engine.cluster.forget("x")
    assert not engine.cluster.ledger.is_current(held)


def test_a_fork_of_a_node_has_the_pods_that_hold_none_of_its_cards() -> None:
    engine = a_node()
    engine.reserve("x", "n1", [()])
    assert [held.uid for held in engine.cluster.ledger.fork(["n1"])] == ["x"]


def test_ended_init_containers_give_back_what_only_they_held() -> None:
    engine = a_node()
    asked = pod(container("c", gpu=1, gpumem=10), init=[container("i", gpu=1, gpumem=100)])
    engine.reserve("x", "n1", [(Share("GPU-0", "NVIDIA", 100, 50),), (Share("GPU-0", "NVIDIA", 10, 5),)], of=asked)
    assert used(engine, "GPU-0") == Usage(1, 100, 50)
    assert (engine.cluster.end_init("x"), engine.cluster.end_init("x")) == (True, False)
    assert used(engine, "GPU-0") == Usage(1, 10, 5)


def test_usage_of_a_node_that_registers_later_is_not_lost() -> None:
    engine = Engine({})
    engine.hold("n1", "GPU-0", memory_mib=500)
    engine.cluster.register("n1", NodeCards((card("GPU-0"),)))
    assert used(engine, "GPU-0").memory_mib == 500


def test_card_in_three_regular_containers_takes_three_slots() -> None:
    shares = [(Share("GPU-0", "NVIDIA", 1, 1),)] * 3
    assert collapse(shares, [ContainerType.REGULAR] * 3) == {"GPU-0": Usage(3, 3, 3)}


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


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["n1", "n2"]), st.booleans()), max_size=8)


def change(ledger: Ledger, steps: Iterable[tuple[str, str, bool]]) -> None:
    """Let pods take a card of a node, or end."""
    for uid, node, takes in steps:
        if takes:
            shares = {"NVIDIA": ((Share("GPU-0", "NVIDIA", 5, 1),),)}
            ledger.assume(
                Reservation(uid, "ns", uid, node, shares, (ContainerType.REGULAR,), ReservationStatus.ASSUMED, 0.0)
            )
        else:
            ledger.forget(uid)


def tell_nodes(ledger: Ledger, nodes: Iterable[str]) -> list[tuple[list[str], Usage]]:
    """Tell who is on each node, and what is used of its card."""
    return [([held.uid for held in ledger.on_node(node)], ledger.usage((node, "NVIDIA", "GPU-0"))) for node in nodes]


@given(STEPS, STEPS, STEPS, st.sampled_from([None, ("n1",)]))
def test_a_ledger_and_its_fork_never_see_what_the_other_changes(before, here, there, nodes) -> None:
    ledger, alone, alone_fork = Ledger(), Ledger(), Ledger()
    for one in (ledger, alone, alone_fork):
        change(one, before)
    fork, seen = ledger.fork(nodes), nodes or ("n1", "n2")
    change(ledger, here)
    change(fork, steps := [step for step in there if step[1] in seen])
    change(ledger, here)
    change(alone, [*here, *here])
    change(alone_fork, steps)
    assert tell_nodes(ledger, ("n1", "n2")) == tell_nodes(alone, ("n1", "n2"))
    assert tell_nodes(fork, seen) == tell_nodes(alone_fork, seen)


TWO_VENDORS = ("DCU", "NVIDIA")


def a_shared_node() -> ClusterState:
    """One node on which two vendors call their cards the same."""
    fleet = ClusterState(Catalog(tuple(one for one in load_default_profiles() if one.word in TWO_VENDORS)))
    for word in TWO_VENDORS:
        fleet.register("n1", word, NodeCards((card("0"), card("1", index=1))))
    return fleet


def give(
    fleet: ClusterState, uid: str, word: str, uuid: str, memory_mib: int, instances: tuple[MigAllocation, ...] = ()
) -> None:
    shares = {word: ((Share(uuid, word, memory_mib, 1),),)}
    regular = (ContainerType.REGULAR,)
    fleet.assume(
        Reservation(uid, "ns", uid, "n1", shares, regular, ReservationStatus.ASSUMED, 0.0, instances=instances)
    )


GIVEN = st.lists(st.tuples(st.sampled_from(TWO_VENDORS), st.sampled_from("01"), AMOUNTS, st.booleans()), max_size=12)


@given(GIVEN)
def test_vendors_whose_cards_have_the_same_ids_never_see_each_others_usage(given_away) -> None:
    fleet = a_shared_node()
    expected = {(word, uuid): Usage() for word in TWO_VENDORS for uuid in "01"}
    for number, (word, uuid, memory_mib, is_kept) in enumerate(given_away):
        give(fleet, f"p{number}", word, uuid, memory_mib)
        if is_kept:
            expected[word, uuid] += Usage(1, memory_mib, 1)
        else:
            fleet.forget(f"p{number}")
    assert {(word, uuid): used_of(fleet[word].table, uuid) for word, uuid in expected} == expected


def test_parts_of_a_divided_card_are_nothing_to_a_card_of_another_vendor_with_the_same_id() -> None:
    fleet = a_shared_node()
    part = MigAllocation(0, 0, "0", "1g.5gb", MigPlacement(0, 1))
    give(fleet, "p", "DCU", "0", 10, instances=(part,))
    table = fleet["DCU"].table
    assert bool(table.cards.healthy[table.row("n1", "0")])


def test_cores_that_are_bits_of_a_mask_count_as_a_number_for_quotas() -> None:
    fleet = ClusterState(Catalog(tuple(one for one in load_default_profiles() if one.word == "AWSNeuron")))
    for uid, uuid, mask in (("a", "0", 3), ("b", "1", 2)):
        shares = {"AWSNeuron": ((Share(uuid, "AWSNeuron", 0, mask),),)}
        fleet.assume(
            Reservation(uid, "ns", uid, "n1", shares, (ContainerType.REGULAR,), ReservationStatus.ASSUMED, 0.0)
        )
    assert fleet.ledger.namespace_usage("ns", "AWSNeuron").cores == 3
    fleet.forget("a")
    assert fleet.ledger.namespace_usage("ns", "AWSNeuron").cores == 1


def test_a_reservation_keeps_priority_and_start_of_its_pod_whatever_becomes_of_it() -> None:
    ledger = Ledger()
    shares = {"NVIDIA": ((Share("GPU-0", "NVIDIA", 5, 1),), (Share("GPU-0", "NVIDIA", 7, 1),))}
    container_types = (ContainerType.INIT, ContainerType.REGULAR)
    held = Reservation(
        "x",
        "ns",
        "x",
        "n1",
        shares,
        container_types,
        ReservationStatus.ASSUMED,
        0.0,
        priority=-5,
        started_at=1_700_000_000,
    )
    ledger.assume(held)
    ledger.confirm("x")
    ledger.end_init("x")
    found = [copy.find("x") for copy in (ledger, ledger.fork(), ledger.fork(("n1",)))]
    assert [(one.priority, one.started_at) for one in found if one] == [(-5, 1_700_000_000)] * 3
