"""Cards divided in hardware (MIG): which instance is given (scheduler 6.8, 6.9)."""

from typing import Any

import msgspec
import pytest
from builders import NVIDIA, Engine, card, cards_of, container, pod
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.filtering.compiled_profile import compile_profile
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.partitions import GeometryPartition, ProfilePartition
from gpuloom.engine.state.vendor_state import VendorState
from gpuloom.model.mig import MigAllocation, MigPart, MigPlacement, MigProfile
from gpuloom.model.share import ContainerShares, Share
from gpuloom.wire.objects import ObjectMeta, Pod, ResourceQuota, ResourceQuotaSpec


def places(size: int, *starts: int) -> tuple[MigPlacement, ...]:
    return tuple(MigPlacement(start, size) for start in starts)


A100 = (
    MigProfile("1g.5gb", 5120, 14, 1, places(1, *range(7))),
    MigProfile("2g.10gb", 10240, 28, 2, places(2, 0, 2, 4)),
    MigProfile("3g.20gb", 20480, 42, 3, places(4, 0, 4)),
)
ONE_G = MigPart(5120, 14)
GEOMETRIES = (
    (("A100",), ((ONE_G,) * 7, (ONE_G, *[MigPart(10240, 28)] * 3), (MigPart(20480, 42),) * 2, (MigPart(40960, 100),))),
)


def take_all(partition: Any, *amounts: int) -> list[Any]:
    taken: list[Any] = []
    for amount in amounts:
        found = partition.take(amount)
        if found is None:
            taken.append(None)
        else:
            partition, instance = found
            taken.append(instance)
    return taken


def test_small_and_middle_profiles_are_placed_from_the_top_others_from_the_bottom() -> None:
    taken = take_all(ProfilePartition(A100), 20480, 10240, 5120, 5120)
    assert [instance.placement.start for instance in taken] == [4, 0, 3, 2]


def test_request_gets_the_smallest_profile_that_is_large_enough() -> None:
    (taken,) = take_all(ProfilePartition(A100), 10000)
    assert (taken.profile, taken.memory_mib, taken.cores, taken.placement) == ("2g.10gb", 10240, 28, MigPlacement(0, 2))


@pytest.mark.parametrize(("amount", "fits"), [(10000, False), (5000, True)])
def test_three_middle_instances_leave_room_for_a_small_one_only(amount: int, fits: bool) -> None:  # noqa: FBT001
    partition = ProfilePartition(A100)
    for placement in places(2, 0, 2, 4):
        partition = partition.occupy(placement)
    assert (partition.take(amount) is not None) is fits


def test_first_instance_chooses_the_geometry_and_the_card_keeps_it() -> None:
    partition = GeometryPartition(GEOMETRIES[0][1])
    assert [taken and taken.part for taken in take_all(partition, 5000, 5000, 8000)] == [(0, 0), (0, 1), None]


def test_instances_are_numbered_inside_the_whole_geometry() -> None:
    """B-41."""
    partition = GeometryPartition(GEOMETRIES[0][1])
    parts = [taken and taken.part for taken in take_all(partition, 10000, 8000, 5000, 9000, 9000)]
    assert parts == [(1, 1), (1, 2), (1, 0), (1, 3), None]


def divided(mode: str = "mig", **facts: Any) -> Engine:
    engine = Engine({})
    divided = msgspec.structs.replace(NVIDIA, geometries=GEOMETRIES)
    engine.cluster = VendorState(divided)
    engine.vendor_scheduler = VendorScheduler(engine.cluster, compile_profile(divided, engine.options), engine.options)
    cards = (card("GPU-0", model="NVIDIA A100", memory_mib=40960, **facts),)
    engine.cluster.register("n1", NodeCards(tuple(_in_mode(one, mode) for one in cards)))
    return engine


def _in_mode(one: Any, mode: str) -> Any:
    return replace(one, mode=mode)


def test_share_of_a_divided_card_is_what_its_instance_really_has() -> None:
    decision = divided(mig_profiles=A100).decide(pod(gpu=1, gpumem=10000))
    assert decision.shares["NVIDIA"] == ((Share("GPU-0", "NVIDIA", 10240, 28),),)
    assert [(part.profile, part.placement) for part in decision.instances] == [("2g.10gb", MigPlacement(0, 2))]


def test_one_divided_card_serves_two_cards_of_a_request() -> None:
    """B-06."""
    decision = divided().decide(pod(gpu=2, gpumem=8000))
    assert [share.uuid for share in decision.shares["NVIDIA"][0]] == ["GPU-0[1-1]", "GPU-0[1-2]"]


@pytest.mark.parametrize("annotations", [{}, {"hami.io/gpu-scheduler-policy": "topology-aware"}], ids=["", "linked"])
@pytest.mark.parametrize("facts", [{}, {"mig_profiles": A100}], ids=["geometries", "profiles"])
def test_a_divided_card_gives_one_container_no_more_instances_than_it_has_slots_left(
    facts: dict[str, Any], annotations: dict[str, str]
) -> None:
    """B-58."""
    engine = divided(count=3, **facts)
    assert engine.place(pod(name="first", gpu=1, gpumem=5000)).node == "n1"
    assert engine.decide(pod(gpu=2, gpumem=5000, annotations=annotations)).node == "n1"
    assert engine.why(pod(gpu=3, gpumem=5000, annotations=annotations)) == (
        "1/1 CardTimeSlicingExhausted, 2/1 AllocatedCardsInsufficientRequest"
    )


def small_then_large() -> Pod:
    """A pod whose init container gets a small instance before its container gets a large one."""
    return pod(container(gpu=1, gpumem=10000), init=[container("init", gpu=1, gpumem=5000)])


def large_then_small() -> Pod:
    return pod(container(gpu=1, gpumem=5000), init=[container("init", gpu=1, gpumem=10000)])


def test_a_pod_gets_instances_of_the_geometry_that_its_init_container_chose() -> None:
    decision = divided().decide(large_then_small())
    assert cards_of(decision) == [["GPU-0[1-1]"], ["GPU-0[1-0]"]]


def test_a_card_is_refused_that_the_init_container_would_have_divided_otherwise() -> None:
    assert divided().why(small_then_large()) == "1/1 CardNotFoundCustomFilterRule"


def test_a_card_is_passed_over_that_the_init_container_would_have_divided_otherwise() -> None:
    engine = divided()
    cards = [card(f"GPU-{at}", model="NVIDIA A100", memory_mib=40960) for at in range(2)]
    engine.cluster.register("n1", NodeCards(tuple(_in_mode(one, "mig") for one in cards)))
    init, main = cards_of(engine.decide(small_then_large()))
    assert (init[0][-5:], main[0][-5:], init[0][:5] != main[0][:5]) == ("[0-0]", "[1-1]", True)


def test_init_containers_share_one_geometry_and_its_instances() -> None:
    two = [container(name, gpu=1, gpumem=memory_mib) for name, memory_mib in (("a", 10000), ("b", 5000))]
    decision = divided().decide(pod(container(gpu=3, gpumem=8000), init=two))
    assert cards_of(decision) == [["GPU-0[1-1]"], ["GPU-0[1-0]"], ["GPU-0[1-1]", "GPU-0[1-2]", "GPU-0[1-3]"]]


def test_a_card_stays_usable_beside_a_pod_whose_init_container_divided_it() -> None:
    engine = divided()
    engine.place(large_then_small())
    assert cards_of(engine.decide(pod(name="next", gpu=1, gpumem=10000))) == [["GPU-0[1-2]"]]


def test_linked_instances_of_eight_divided_cards_are_chosen_among_a_billion_sets() -> None:
    engine = divided()
    cards = [card(f"GPU-{at}", model="NVIDIA A100", memory_mib=40960, mig_profiles=A100) for at in range(8)]
    engine.cluster.register("n1", NodeCards(tuple(_in_mode(one, "mig") for one in cards)))
    asked = pod(gpu=8, gpumem=5000, annotations={"hami.io/gpu-scheduler-policy": "topology-aware"})
    assert len(engine.decide(asked).shares["NVIDIA"][0]) == 8


def test_a_refusal_that_a_quota_caused_is_not_told_to_namespaces_without_one() -> None:
    """Instances are larger than what is asked for, so a quota that the amounts asked for meet can still be exceeded."""
    engine = divided(mig_profiles=A100)
    limits = ResourceQuotaSpec(hard={"limits.nvidia.com/gpumem": "10050"})
    engine.cluster.quotas.apply(ResourceQuota(metadata=ObjectMeta(name="q", namespace="small"), spec=limits))
    two = [container(name, gpu=1, gpumem=5000, gpucores=1) for name in ("a", "b")]
    small, free = pod(*two, name="small", namespace="small"), pod(*two, name="free", namespace="free")
    assert (engine.decide(small).node, engine.decide(free).node) == (None, "n1")


def test_pod_that_wants_undivided_cards_gets_none_of_a_divided_one() -> None:
    asked = pod(gpu=1, gpumem=1, annotations={"nvidia.com/vgpu-mode": "hami-core"})
    assert divided().why(asked) == "1/1 CardTypeMismatch"


def test_divided_card_with_memory_but_without_a_place_names_its_kind_of_division() -> None:
    """D-38."""
    full = divided(mig_profiles=A100)
    roomy = replace(card("GPU-0", model="NVIDIA A100", memory_mib=50000, mig_profiles=A100), mode="mig")
    full.cluster.register("n1", NodeCards((roomy,)))
    for number in range(2):
        full.place(pod(name=f"p{number}", gpu=1, gpumem=20000))
    assert full.why(pod(gpu=1, gpumem=100)) == "1/1 CardMigTopologyInfeasible"


def test_model_without_geometry_never_fits() -> None:
    engine = divided()
    engine.cluster.register("n2", NodeCards((_in_mode(card("GPU-1", model="NVIDIA T4"), "mig"),)))
    assert engine.why(pod(gpu=1, gpumem=1), "n2") == "1/1 CardNotFoundCustomFilterRule"


def test_card_of_which_a_pod_holds_what_cannot_be_is_not_used() -> None:
    engine = divided()
    engine.reserve("x", "n1", [(Share("GPU-0[9-9]", "NVIDIA", 5120, 14),)])
    assert engine.why(pod(gpu=1, gpumem=1)) == "1/1 CardNotHealth"


AN_INSTANCE = (MigAllocation(0, 0, "GPU-0", "1g.5gb", MigPlacement(0, 1)),)


@pytest.mark.parametrize(
    ("shares", "instances"),
    [
        ([(Share("GPU-0[0-0]", "NVIDIA", 5120, 14),)], ()),
        ([(Share("GPU-1", "NVIDIA", 5120, 14),), (Share("GPU-0[0-0]", "NVIDIA", 5120, 14),)], ()),
        ([(Share("GPU-0", "NVIDIA", 5120, 14),)], AN_INSTANCE),
        ([(Share("GPU-0", "NVIDIA", 5120, 14),), ()], AN_INSTANCE),
        ([()], AN_INSTANCE),
    ],
)
def test_a_card_that_is_not_divided_is_not_used_while_a_pod_holds_a_part_of_it(
    shares: list[ContainerShares], instances: tuple[MigAllocation, ...]
) -> None:
    engine = Engine({"n1": [card("GPU-0")], "n2": [card("GPU-1")]})
    engine.reserve("x", "n1", shares, instances=instances)
    assert engine.why(pod(gpu=1, gpumem=1)) == "1/1 CardNotHealth"


@pytest.mark.parametrize(("sidecar", "free"), [(False, [["GPU-0[2-0]"]]), (True, [])])
def test_only_the_instance_that_an_ended_init_container_held_is_free_again(
    *, sidecar: bool, free: list[list[str]]
) -> None:
    """What a sidecar holds does not end."""
    engine = divided()
    asked = pod(container(gpu=1, gpumem=20000), init=[container("init", gpu=1, gpumem=20000, sidecar=sidecar)])
    halves = [(Share(f"GPU-0[2-{at}]", "NVIDIA", 20480, 42),) for at in range(2)]
    engine.reserve("x", "n1", halves, of=asked)
    assert engine.decide(pod(name="next", gpu=1, gpumem=20000)).node is None
    engine.cluster.end_init("x")
    placed = [engine.place(pod(name=name, gpu=1, gpumem=20000)) for name in ("next", "last")]
    assert [card_ids for one in placed if one.node for card_ids in cards_of(one)] == free


@pytest.mark.parametrize("part", ["[4-0]", "[2-2]", "[2-9]"])
def test_a_card_of_which_a_pod_holds_a_part_that_it_cannot_have_is_not_used(part: str) -> None:
    engine = divided()
    engine.reserve("x", "n1", [(Share(f"GPU-0{part}", "NVIDIA", 5120, 14),)])
    assert engine.why(pod(gpu=1, gpumem=1)) == "1/1 CardNotHealth"


def test_a_card_that_two_pods_hold_divided_in_different_ways_is_not_used() -> None:
    engine = divided()
    for way in (0, 1):
        engine.reserve(f"x{way}", "n1", [(Share(f"GPU-0[{way}-{way}]", "NVIDIA", 5120, 14),)])
    assert engine.why(pod(gpu=1, gpumem=1)) == "1/1 CardNotHealth"


def with_profiles(shares: int, *places_held: int, card_id: str = "GPU-0", of: Pod | None = None) -> Engine:
    """A card with published profiles, and a pod with some shares of it and instances of one slice at these places."""
    engine = Engine({"n1": [_in_mode(card("GPU-0", memory_mib=40960, mig_profiles=A100), "mig")]})
    held = [MigAllocation(at, 0, card_id, "1g.5gb", MigPlacement(start, 1)) for at, start in enumerate(places_held)]
    engine.reserve("x", "n1", [(Share("GPU-0", "NVIDIA", 5120, 14),)] * shares, instances=tuple(held), of=of)
    return engine


def occupied(engine: Engine) -> int:
    """Which slices of the card are in use, as bits."""
    (partition,) = engine.cluster.table.partitions.values()
    assert isinstance(partition, ProfilePartition)
    return partition.occupied


def test_a_pod_with_more_shares_of_a_divided_card_than_instances_makes_it_unusable() -> None:
    assert with_profiles(1, 0).decide(pod(gpu=1, gpumem=1)).node == "n1"
    assert with_profiles(2, 0).why(pod(gpu=1, gpumem=1)) == "1/1 CardNotHealth"


def test_instances_beyond_the_shares_of_a_pod_are_in_use_as_well() -> None:
    assert occupied(with_profiles(1, 0, 2)) == 0b101


def test_an_instance_of_a_card_that_the_node_does_not_have_makes_its_divided_cards_unusable() -> None:
    assert with_profiles(0, 0, card_id="GPU-9").why(pod(gpu=1, gpumem=1)) == "1/1 CardNotHealth"


def test_a_listed_instance_is_in_use_when_its_init_container_has_ended_too() -> None:
    asked = pod(container(gpu=1), init=[container("init", gpu=1)])
    engine = with_profiles(2, 0, 2, of=asked)
    engine.cluster.end_init("x")
    assert (occupied(engine), engine.decide(pod(gpu=1, gpumem=1)).node) == (0b101, "n1")


def test_instance_of_a_pod_that_is_gone_is_free_again() -> None:
    engine = divided()
    engine.reserve("x", "n1", [(Share("GPU-0[3-0]", "NVIDIA", 40960, 100),)])
    assert engine.decide(pod(gpu=1, gpumem=1)).node is None
    engine.cluster.forget("x")
    assert engine.decide(pod(gpu=1, gpumem=1)).node == "n1"


@given(st.integers(0, 70), st.integers(1, 70), st.integers(0, 63), st.data())
def test_instances_in_use_are_in_the_way_of_those_that_they_overlap(
    start: int, size: int, first: int, data: st.DataObject
) -> None:
    used, wanted = MigPlacement(start, size), MigPlacement(first, data.draw(st.integers(1, 64 - first)))
    partition = ProfilePartition((MigProfile("1g", 1, placements=(wanted,)),)).occupy(used)
    assert (partition.take(1) is None) is used.overlaps(wanted)


def test_what_is_remembered_of_a_card_does_not_grow_with_the_instances_that_a_pod_says_it_holds() -> None:
    """Whoever owns a bound pod may write into its annotation."""
    partition = ProfilePartition(A100)
    for start in range(100_000):
        partition = partition.occupy(MigPlacement(start, 2**31 - 1))
    assert partition.occupied < 2**64
