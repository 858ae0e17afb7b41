"""The cards as the plugin knows them, behind a driver that fails, changes and leaves facts out."""

from contextlib import aclosing
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from gpuloom.node.errors import CardReadError
from gpuloom.node.health import HealthBook, HealthSettings
from gpuloom.node.inventory import CardInventory
from gpuloom.node.nvml import Gpu
from gpuloom.node.simulated import MachineDescription, SimulatedMachine

GPU = Gpu(uuid="GPU-a", index=1, name="NVIDIA A40", memory_mib=46068, pci_bus_id="00000000:01:00.0")
DUMB = Gpu(uuid="GPU-b", index=0, name="NVIDIA GB10", memory_mib=None, pci_bus_id="00000000:02:00.0")


class ScriptedDriver(SimulatedMachine):
    """Gives one answer after another; an exception is raised."""

    def __init__(self, *answers):
        super().__init__("n1", MachineDescription(cards=()))
        self._answers = list(answers)

    async def read_gpus(self):
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def book():
    return HealthBook(HealthSettings())


@pytest.fixture
def make_inventory(settings, book):
    return lambda *answers, **change: CardInventory(ScriptedDriver(*answers), replace(settings, **change), book)


async def test_cards_that_cannot_be_read_stay_as_they_were(make_inventory):
    inventory = make_inventory((GPU,), CardReadError("driver is away"))
    await inventory.refresh()
    with pytest.raises(CardReadError):
        await inventory.refresh()
    assert inventory.find_ids("nvidia.com/gpu") == ("GPU-a",)


async def test_a_card_without_memory_is_named_in_the_log(make_inventory):
    with capture_logs() as logs:
        await make_inventory((GPU, DUMB)).refresh()
    assert [entry["uuid"] for entry in logs if entry["log_level"] == "error"] == ["GPU-b"]


async def test_a_card_without_memory_is_named_once(make_inventory):
    inventory = make_inventory((GPU, DUMB), (GPU, DUMB))
    await inventory.refresh()
    with capture_logs() as logs:
        await inventory.refresh()
    assert logs == []


async def test_a_card_without_memory_is_offered_with_the_preconfigured_one(make_inventory):
    cards = await make_inventory((DUMB,), preconfigured_memory_mib=4096).refresh()
    assert [(card.id, card.memory_mib) for card in cards] == [("GPU-b", 4096)]


async def test_a_preconfigured_memory_does_not_count_for_a_card_that_tells(make_inventory):
    cards = await make_inventory((GPU,), preconfigured_memory_mib=4096).refresh()
    assert [card.memory_mib for card in cards] == [46068]


async def test_a_filtered_card_is_not_complained_about(make_inventory):
    with capture_logs() as logs:
        await make_inventory((DUMB,), filter_indexes=frozenset({0})).refresh()
    assert [entry for entry in logs if entry["log_level"] == "error"] == []


async def test_a_node_without_cards_has_an_empty_list_to_tell(make_inventory):
    async with aclosing(make_inventory(()).changes("nvidia.com/gpu")) as changes:
        assert await anext(changes) == ()


async def test_a_sick_card_is_told_unhealthy(make_inventory, book):
    book.note("GPU-a", "Xid 79", 0)
    assert [card.healthy for card in await make_inventory((GPU,)).refresh()] == [False]


async def test_a_card_that_fell_sick_is_told_without_asking_the_driver(make_inventory, book):
    inventory = make_inventory((GPU,))
    await inventory.refresh()
    book.note("GPU-a", "Xid 79", 0)
    await inventory.apply_health()
    assert [card.healthy for card in inventory.cards] == [False]


async def test_the_drivers_facts_are_those_of_the_cards_that_are_offered(make_inventory):
    inventory = make_inventory((GPU, DUMB))
    await inventory.refresh()
    assert inventory.gpus == (GPU,)
