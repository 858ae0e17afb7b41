"""Examples of cards that are divided by published profiles (scheduler 6.9)."""

import pytest

from oracle import profiles
from oracle.device import DeviceUsage
from oracle.fit import UnfitError
from oracle.nodefit import fit_container
from oracle.records import AllocatedDevice, MigAllocation, MigProfile, Placement, RegisteredCard, Request
from oracle.samples import a_pod, a_question
from oracle.scores import Weights
from oracle.settings import Settings

P1 = MigProfile("1g.5gb", 5120, 14, 1, tuple(Placement(start, 1) for start in range(7)))
P2 = MigProfile("2g.10gb", 10240, 28, 2, tuple(Placement(start, 2) for start in (0, 2, 4)))
P3 = MigProfile("3g.20gb", 20480, 42, 3, (Placement(0, 4), Placement(4, 4)))


def a_card(id_: str = "GPU-0", mode: str = "mig") -> DeviceUsage:
    return DeviceUsage(RegisteredCard(id_, count=7, devmem=40960, mode=mode, mig_profiles=(P3, P1, P2)))


def three_twos(id_: str = "GPU-0") -> DeviceUsage:
    device = a_card(id_)
    device.occupied = list(P2.placements)
    return device


def ask(devices: list[DeviceUsage], request: Request) -> tuple[list[AllocatedDevice], list[MigAllocation]]:
    allocations: list[MigAllocation] = []
    question = a_question(a_pod({"gpu": request.nums}), settings=Settings())
    return fit_container(devices, request, question, Weights(), allocations), allocations


def item(uuid: str = "GPU-0", start: int = 0) -> MigAllocation:
    return MigAllocation(0, 0, uuid, "2g.10gb", Placement(start, 2))


def test_instances_are_placed_as_in_the_example():
    device = a_card()
    starts = [ask([device], Request(1, memory_mib))[1][0].placement.start for memory_mib in (20480, 10240, 5120, 5120)]
    assert starts == [4, 0, 3, 2]


def test_a_request_takes_the_smallest_profile_that_is_large_enough():
    given, allocations = ask([a_card()], Request(1, 10000))
    assert given == [AllocatedDevice("GPU-0", 10240, 28)]
    assert allocations == [MigAllocation(0, 0, "GPU-0", "2g.10gb", Placement(0, 2))]


def test_a_small_instance_fits_where_no_larger_one_does():
    assert not profiles.has_capacity(three_twos(), 10000, [])
    assert profiles.has_capacity(three_twos(), 5000, [])


def test_instances_collected_on_the_same_card_take_its_room():
    assert not profiles.has_capacity(three_twos(), 5000, [AllocatedDevice("GPU-0", 5000, 0)])


def test_instances_collected_on_another_card_do_not():
    given, _ = ask([three_twos("GPU-0"), three_twos("GPU-1")], Request(2, 5000))
    assert [device.uuid for device in given] == ["GPU-1", "GPU-0"]


def test_a_percentage_that_finds_no_place_is_refused_by_its_topology():
    device = three_twos()
    device.usedmem = 30720
    with pytest.raises(UnfitError, match="1/1 CardMigTopologyInfeasible"):
        ask([device], Request(1, 0, 25))


def test_a_pods_instances_occupy_the_card():
    device = a_card()
    profiles.apply_pod([device], [AllocatedDevice("GPU-0", 10240, 28)], [item(start=2)])
    assert (device.health, device.occupied) == (True, [Placement(2, 2)])


def test_left_over_instances_occupy_the_card_too():
    device = a_card()
    profiles.apply_pod([device], [], [item(start=4)])
    assert device.occupied == [Placement(4, 2)]


def test_a_share_without_instance_makes_a_divided_card_unhealthy():
    device = a_card()
    profiles.apply_pod([device], [AllocatedDevice("GPU-0", 10240, 28)], [])
    assert not device.health


def test_an_instance_on_an_undivided_card_makes_it_unhealthy():
    device = a_card(mode="hami-core")
    profiles.apply_pod([device], [AllocatedDevice("GPU-0", 10240, 28)], [item()])
    assert not device.health


def test_an_instance_of_an_unknown_card_makes_all_divided_cards_of_the_node_unhealthy():
    divided, shared = a_card(), a_card("GPU-1", mode="hami-core")
    profiles.apply_pod([divided, shared], [], [item("GPU-gone")])
    assert (divided.health, shared.health) == (False, True)
