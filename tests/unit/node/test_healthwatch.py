"""Watching a simulated machine; time passes only when the test says so."""

import asyncio
from contextlib import asynccontextmanager
from unittest.mock import AsyncMock

import pytest

from gpuloom.node.errors import CardReadError
from gpuloom.node.health import HealthBook, HealthSettings, parse_health
from gpuloom.node.healthwatch import HealthWatch
from gpuloom.node.inventory import CardInventory
from gpuloom.node.simulated import CardGroup, MachineDescription, SimulatedFault, SimulatedMachine, load_machine


class Ward:
    """A machine of two cards that is watched, and a clock."""

    def __init__(self, settings, health):
        self.machine = SimulatedMachine("n1", load_machine("two-t4"), tick_s=0)
        self.book = HealthBook(health)
        self.inventory = CardInventory(self.machine, settings, self.book)
        self.now_s = 0.0
        self.watches = 0
        self._watch = HealthWatch(self, self.inventory, self.book, health, sleep=self._sleep, now=lambda: self.now_s)

    def __getattr__(self, name):
        return getattr(self.machine, name)

    async def watch_events(self):
        self.watches += 1
        return await self.machine.watch_events()

    async def _sleep(self, seconds):
        del seconds
        await asyncio.sleep(0)

    async def wait_for_health(self, *expected):
        async with asyncio.timeout(60):
            while [card.healthy for card in self.inventory.cards] != [*expected]:  # noqa: ASYNC110 - the inventory is read by itself
                await asyncio.sleep(0)

    async def wait_for_watches(self, count):
        async with asyncio.timeout(60):
            while self.watches < count:  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def look(self, rounds=1):
        for _ in range(rounds):
            await self._watch.look()

    @property
    def first(self):
        return self.machine.gpus[0].uuid

    @asynccontextmanager
    async def watching(self):
        running = asyncio.create_task(self._watch.run())
        try:
            await self.wait_for_health(True, True)
            yield
        finally:
            running.cancel()
            await asyncio.wait({running})


@pytest.fixture
async def make_ward(settings):
    return lambda health=HealthSettings(): Ward(settings, health)  # noqa: B008 - frozen


@pytest.fixture
def ward(make_ward):
    return make_ward()


async def test_a_critical_error_makes_its_card_unhealthy(ward):
    async with ward.watching():
        ward.raise_xid(ward.first, 79)
        await ward.wait_for_health(False, True)


async def test_a_lost_card_is_unhealthy_until_it_is_back(ward):
    async with ward.watching():
        ward.set_faults([SimulatedFault(kind="lost", card=0)])
        await ward.wait_for_health(False, True)
        ward.set_faults([])
        await ward.wait_for_health(True, True)


async def test_the_errors_of_a_card_that_was_lost_are_asked_for_afresh(ward):
    async with ward.watching():
        before = ward.watches
        ward.set_faults([SimulatedFault(kind="lost", card=0)])
        await ward.wait_for_health(False, True)
        ward.set_faults([])
        await ward.wait_for_health(True, True)
        await ward.wait_for_watches(before + 1)


async def test_a_card_that_is_lost_while_errors_are_asked_for_is_well_as_soon_as_it_is_back(ward):
    async with ward.watching():
        ward.set_faults([SimulatedFault(kind="lost", card=0)])
        await ward.wait_for_health(False, True)
        ward.raise_xid(ward.machine.gpus[1].uuid, 79)
        await ward.wait_for_health(False, False)
        ward.now_s = 300
        await ward.wait_for_health(False, True)
        ward.set_faults([])
        await ward.wait_for_health(True, True)


async def test_errors_are_asked_for_once_while_cards_stay_the_same(ward):
    await ward.look(4)
    assert ward.watches == 1


async def test_a_card_that_is_gone_for_good_is_forgotten(ward):
    gone = ward.machine.gpus[1].uuid
    await ward.look()
    ward.set_faults([SimulatedFault(kind="failing")])
    await ward.look()
    assert gone in ward.book.sick
    ward.describe(MachineDescription(cards=(CardGroup(model="Tesla T4", memory_mib=15360),)))
    await ward.look(2)
    assert ([*ward.book.sick], [card.healthy for card in ward.inventory.cards]) == ([], [True])


async def test_a_card_recovers_after_its_time(ward):
    async with ward.watching():
        ward.raise_xid(ward.first, 79)
        await ward.wait_for_health(False, True)
        ward.now_s = 300
        await ward.wait_for_health(True, True)


async def test_a_card_that_does_not_answer_its_probe_stays_unhealthy(ward):
    async with ward.watching():
        ward.raise_xid(ward.first, 79)
        await ward.wait_for_health(False, True)
        ward.set_faults([SimulatedFault(kind="failing", card=0)])
        watches = ward.watches
        ward.now_s = 300
        await ward.wait_for_watches(watches + 1)
        assert ward.first in ward.book.sick


async def test_a_card_that_failed_its_probe_recovers_a_time_later(ward):
    async with ward.watching():
        ward.raise_xid(ward.first, 79)
        await ward.wait_for_health(False, True)
        ward.set_faults([SimulatedFault(kind="failing", card=0)])
        ward.now_s = 300
        await ward.wait_for_watches(2)
        ward.set_faults([])
        ward.now_s = 600
        await ward.wait_for_health(True, True)


@pytest.mark.parametrize("kind", ["failing", "silent"])
async def test_a_driver_that_reports_nothing_makes_all_cards_unhealthy(ward, kind):
    async with ward.watching():
        ward.set_faults([SimulatedFault(kind=kind)])
        await ward.wait_for_health(False, False)


async def test_after_three_failed_waits_the_watch_is_made_anew(ward):
    async with ward.watching():
        ward.set_faults([SimulatedFault(kind="failing")])
        await ward.wait_for_watches(2)


async def test_cards_recover_with_their_driver(ward):
    async with ward.watching():
        ward.set_faults([SimulatedFault(kind="failing")])
        await ward.wait_for_health(False, False)
        ward.set_faults([])
        await ward.wait_for_health(True, True)


async def test_errors_that_could_not_be_asked_for_afresh_are_asked_for_with_the_next_look(ward, monkeypatch):
    """The driver has given up the old watch by then, so that waiting fails until there is a new one."""
    await ward.look()
    ward.raise_xid(ward.first, 79)
    await ward.look()
    ward.now_s = 300
    with monkeypatch.context() as failing:
        failing.setattr(ward.machine, "watch_events", AsyncMock(side_effect=CardReadError("no watch can be made")))
        await ward.look()
    before = ward.watches
    wait = ward.machine.wait_for_event

    async def wait_with_a_watch():
        if ward.watches == before:
            raise CardReadError("there is no watch")
        return await wait()

    monkeypatch.setattr(ward.machine, "wait_for_event", wait_with_a_watch)
    await ward.look()
    assert [card.healthy for card in ward.inventory.cards] == [False, True]


class DeafDriver:
    """Reports errors and fails so many times to list its cards."""

    def __init__(self, machine, failures):
        self._machine = machine
        self.failures = failures

    def __getattr__(self, name):
        return getattr(self._machine, name)

    async def read_gpus(self):
        if self.failures > 0:
            self.failures -= 1
            raise CardReadError("the driver is busy")
        return await self._machine.read_gpus()


@pytest.mark.parametrize(("failures", "is_healthy"), [(1, True), (2, True), (3, False)])
async def test_a_driver_that_fails_to_list_its_cards_for_a_moment_takes_none_away(settings, failures, is_healthy):
    driver = DeafDriver(SimulatedMachine("n1", load_machine("two-t4"), tick_s=0), 0)
    book = HealthBook(settings.health)
    inventory = CardInventory(driver, settings, book)
    watch = HealthWatch(driver, inventory, book, settings.health, sleep=asyncio.sleep, now=lambda: 0.0)
    await watch.look()
    driver.failures = failures
    for _ in range(failures):
        await watch.look()
    assert [card.healthy for card in inventory.cards] == [is_healthy] * 2


async def test_errors_are_not_watched_where_none_counts(make_ward):
    ward = make_ward(parse_health("all", ""))
    async with ward.watching():
        ward.raise_xid(ward.first, 79)
        ward.set_faults([SimulatedFault(kind="lost", card=1)])
        await ward.wait_for_health(True, False)
    assert ward.watches == 0
