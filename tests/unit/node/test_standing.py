"""Instances that an administrator made, as the kubelet and the scheduler are told of them (device plugin 4)."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from gpuloom.node.discovery import build_resources, explain_omissions
from gpuloom.node.health import HealthBook
from gpuloom.node.inventory import CardInventory
from gpuloom.node.nvml import Gpu, MigDevice
from gpuloom.node.settings import TimeSlicing
from gpuloom.node.simulated import SimulatedMachine, load_machine

GPU = "nvidia.com/gpu"
WHOLE = Gpu(uuid="GPU-w", index=2, name="NVIDIA A100", memory_mib=40960, pci_bus_id="")


def divided(uuid, index, *profiles):
    devices = tuple(MigDevice(f"MIG-{uuid}{place}", one, 4864, place, 0) for place, one in enumerate(profiles))
    return replace(WHOLE, uuid=f"GPU-{uuid}", index=index, can_be_divided=True, devices=devices)


def offered(settings, *gpus, **change):
    resources = build_resources(gpus, replace(settings, **change))
    return {resource: [card.id for card in cards] for resource, cards in resources.items()}


def test_without_a_strategy_a_divided_card_is_left_out(settings):
    assert offered(settings, WHOLE, divided("a", 0, "1g.5gb")) == {GPU: ["GPU-w"]}


def test_single_offers_instances_as_the_nodes_cards(settings):
    found = offered(settings, divided("b", 1, "1g.5gb"), divided("a", 0, "1g.5gb", "1g.5gb"), mig_strategy="single")
    assert found == {GPU: ["MIG-a0", "MIG-a1", "MIG-b0"]}


def test_single_offers_whole_cards_where_none_is_divided(settings):
    assert offered(settings, WHOLE, mig_strategy="single") == {GPU: ["GPU-w"]}


def test_single_leaves_out_what_is_not_like_the_first_instance(settings):
    found = offered(settings, WHOLE, divided("a", 0, "1g.5gb", "2g.10gb"), mig_strategy="single")
    assert found == {GPU: ["MIG-a0"]}


def test_an_instance_that_is_filtered_does_not_say_what_single_offers(settings):
    gpu, change = divided("a", 0, "2g.10gb", "1g.5gb", "1g.5gb"), {"filter_uuids": frozenset({"MIG-a0"})}
    found = offered(settings, gpu, mig_strategy="single", **change)
    reasons = list(explain_omissions([gpu], replace(settings, mig_strategy="single", **change)))
    assert (found, reasons) == ({GPU: ["MIG-a1", "MIG-a2"]}, [])


def test_mixed_offers_each_profile_as_a_resource_beside_whole_cards(settings):
    found = offered(settings, WHOLE, divided("a", 0, "1g.5gb", "2g.10gb", "1g.5gb"), mig_strategy="mixed")
    assert found == {
        GPU: ["GPU-w"],
        "nvidia.com/mig-1g.5gb": ["MIG-a0", "MIG-a2"],
        "nvidia.com/mig-2g.10gb": ["MIG-a1"],
    }


def test_a_plus_in_a_profile_is_a_dot_in_its_resource(settings):
    assert "nvidia.com/mig-1g.5gb.me" in offered(settings, divided("a", 0, "1g.5gb+me"), mig_strategy="mixed")


@pytest.mark.parametrize(
    "change", [{"filter_uuids": frozenset({"MIG-a0"})}, {"filter_uuids": frozenset({"GPU-a"})}, {"filter_indexes": {0}}]
)
def test_a_filtered_instance_or_its_filtered_card_is_left_out(settings, change):
    found = offered(settings, divided("a", 0, "1g.5gb"), mig_strategy="single", **change)
    assert found == {GPU: []}


def test_an_instance_is_registered_as_a_card_for_one(settings):
    scaled = {"device_memory_scaling": 2.0, "device_core_scaling": 2.0, "device_split_count": 5}
    ((card,),) = build_resources(
        [divided("a", 0, "1g.5gb")], replace(settings, mig_strategy="single", **scaled)
    ).values()
    assert (card.count, card.memory_mib, card.cores, card.model) == (1, 4864, 100, "NVIDIA A100 MIG 1g.5gb")


def test_the_model_of_an_instance_is_named_as_that_of_a_card(settings):
    change = replace(settings, mig_strategy="single", register_format="csv9")
    ((card,),) = build_resources([divided("a", 0, "1g.5gb")], change).values()
    assert card.model == "NVIDIA-NVIDIA A100 MIG 1g.5gb"


def test_instances_may_be_sliced_in_time_where_each_profile_is_a_resource(settings):
    slicing = TimeSlicing({"nvidia.com/mig-1g.5gb": 3})
    change = replace(settings, mig_strategy="mixed", time_slicing=slicing)
    resources = build_resources([divided("a", 0, "1g.5gb")], change)
    assert [card.count for card in resources["nvidia.com/mig-1g.5gb"]] == [3]


def test_slices_of_the_nodes_cards_are_registered_as_their_split_count(settings):
    sliced = replace(settings, time_slicing=TimeSlicing({GPU: 4}))
    assert [card.count for card in build_resources([WHOLE], sliced)[GPU]] == [4]


@pytest.mark.parametrize("sick", ["GPU-a", "MIG-a1"])
async def test_an_instance_is_as_well_as_it_and_its_card_are(settings, sick):
    change = replace(settings, mig_strategy="single")
    book = HealthBook(change.health)
    book.note(sick, "Xid 79", 0)
    inventory = CardInventory(Driver(divided("a", 0, "1g.5gb", "1g.5gb")), change, book)
    await inventory.refresh()
    assert [card.healthy for card in inventory.cards] == [sick == "MIG-a1", False]


@pytest.mark.parametrize(
    ("strategy", "gpu", "reason"),
    [
        ("none", divided("a", 0, "1g.5gb"), "MIG is switched on: switch it off"),
        ("mixed", divided("a", 0), "there is no instance"),
        ("single", divided("a", 0), "there is no instance"),
        ("single", divided("a", 0, "1g.5gb", "2g.10gb"), "it is a 2g.10gb and the first instance is a 1g.5gb"),
    ],
)
async def test_what_is_left_out_is_named_with_the_reason(settings, strategy, gpu, reason):
    change = replace(settings, mig_strategy=strategy)
    with capture_logs() as logs:
        await CardInventory(Driver(gpu), change, HealthBook(change.health)).refresh()
    assert [reason in entry["reason"] for entry in logs if entry["log_level"] == "error"] == [True]


async def test_the_first_instance_is_that_of_the_card_with_the_lowest_index(settings):
    change = replace(settings, mig_strategy="single")
    driver = Driver(divided("b", 1, "2g.10gb"), divided("a", 0, "1g.5gb"))
    with capture_logs() as logs:
        cards = await CardInventory(driver, change, HealthBook(change.health)).refresh()
    omitted = [entry["uuid"] for entry in logs if entry["log_level"] == "error"]
    assert ([card.id for card in cards], omitted) == (["MIG-a0"], ["MIG-b0"])


async def test_a_whole_card_beside_divided_ones_is_named(settings):
    change = replace(settings, mig_strategy="single")
    with capture_logs() as logs:
        await CardInventory(Driver(WHOLE, divided("a", 0, "1g.5gb")), change, HealthBook(change.health)).refresh()
    assert [entry["uuid"] for entry in logs if entry["log_level"] == "error"] == ["GPU-w"]


class Driver(SimulatedMachine):
    """Always gives the same cards."""

    def __init__(self, *gpus):
        super().__init__("n1", load_machine("two-t4"))
        self._answer = gpus

    async def read_gpus(self):
        return self._answer
