"""The cards as the plugin knows them, behind a driver that fails, changes and leaves facts out."""

import asyncio
from contextlib import aclosing

import pytest
from structlog.testing import capture_logs

from gpuloom.node.errors import CardReadError
from gpuloom.node.inventory import CardInventory
from gpuloom.node.nvml import Gpu

GPU = Gpu(uuid="GPU-a", index=0, name="NVIDIA A40", memory_mib=46068, pci_bus_id="00000000:01:00.0")
DUMB = Gpu(uuid="GPU-b", index=1, name="NVIDIA GB10", memory_mib=None, pci_bus_id="00000000:02:00.0")


class ScriptedDriver:
    """Gives one answer after another; an exception is raised, and after the last answer nothing changes."""

    def __init__(self, *answers):
        self._answers = list(answers)

    async def read_gpus(self):
        return self._next()

    async def wait_for_change(self, known):
        del known
        if not self._answers:
            await asyncio.Event().wait()
        return self._next()

    def _next(self):
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_cards_that_cannot_be_read_stay_as_they_were(settings):
    inventory = CardInventory(ScriptedDriver((GPU,), CardReadError("driver is away")), settings)
    await inventory.refresh()
    with pytest.raises(CardReadError):
        await inventory.refresh()
    assert [card.id for card in inventory.cards] == ["GPU-a"]


async def test_following_goes_on_after_the_driver_failed(settings):
    waits = []

    async def note(seconds):
        waits.append(seconds)

    inventory = CardInventory(ScriptedDriver(CardReadError("driver is away"), (GPU,)), settings, sleep=note)
    following = asyncio.create_task(inventory.follow())
    async with aclosing(inventory.changes()) as changes, asyncio.timeout(5):
        while not await anext(changes):
            pass
    following.cancel()
    assert waits == [5]


async def test_a_card_without_memory_is_named_in_the_log(settings):
    with capture_logs() as logs:
        await CardInventory(ScriptedDriver((GPU, DUMB)), settings).refresh()
    assert [entry["uuid"] for entry in logs if entry["log_level"] == "error"] == ["GPU-b"]


async def test_a_node_without_cards_has_an_empty_list_to_tell(settings):
    inventory = CardInventory(ScriptedDriver(()), settings)
    async with aclosing(inventory.changes()) as changes:
        assert await anext(changes) == ()
