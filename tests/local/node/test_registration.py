"""Single ticks of the annotation loop."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from unittest.mock import AsyncMock, patch

import pytest
from structlog.testing import capture_logs

from gpuloom.kube.errors import ApiError
from gpuloom.kube.recorder import EventRecorder
from gpuloom.kube.resources import EVENTS, NODES
from gpuloom.local.apiserver import InjectedFault
from gpuloom.node.errors import CardReadError
from gpuloom.node.health import HealthBook
from gpuloom.node.inventory import CardInventory
from gpuloom.node.nvml import NvLink
from gpuloom.node.registration import NodeRegistration
from gpuloom.node.simulated import SimulatedFault, SimulatedMachine, load_machine
from gpuloom.wire.pairscores import decode_pair_scores
from gpuloom.wire.register import decode_register

REGISTER = "hami.io/node-nvidia-register"
SCORES = "hami.io/node-nvidia-score"


class EnoughError(Exception):
    """Ends a loop after its first wait."""


@pytest.fixture
def machine():
    return SimulatedMachine("n1", load_machine("mixed"))


@pytest.fixture
async def make_registration(local_client, settings, machine):
    await local_client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})

    def make(inventory=None, nvml=machine, **change):
        changed = replace(settings, **change)
        inventory = inventory or CardInventory(nvml, changed, HealthBook(changed.health))
        events = EventRecorder(local_client, "test")
        moment = datetime(2024, 1, 23, 4, 30, 4, 434037, tzinfo=UTC)
        return NodeRegistration(changed, local_client, inventory, nvml, events, now=lambda: moment)

    return make


@pytest.fixture
def book(settings):
    return HealthBook(settings.health)


@pytest.fixture
def inventory(settings, machine, book):
    return CardInventory(machine, settings, book)


@pytest.fixture
def registration(make_registration, inventory):
    return make_registration(inventory=inventory)


async def annotations(client):
    return (await client.get(NODES, "n1")).annotations


async def test_the_first_tick_writes(registration):
    assert await registration.tick()


async def test_an_unchanged_annotation_is_not_written_again(registration):
    await registration.tick()
    assert not await registration.tick()


async def test_an_hour_without_a_change_costs_one_write(registration, local_client, monkeypatch):
    passed_s, writes, patch = 0.0, [], local_client.patch

    async def pass_time(seconds):
        nonlocal passed_s
        passed_s += seconds
        if passed_s > 3600:
            raise EnoughError

    async def count(*args, **options):
        writes.append(args)
        return await patch(*args, **options)

    monkeypatch.setattr(local_client, "patch", count)
    with pytest.raises(EnoughError):
        await registration.keep(sleep=pass_time)
    assert len(writes) == 1


@pytest.mark.parametrize("text", [None, "[]"])
async def test_what_others_do_to_the_annotation_is_repaired_within_30_seconds(registration, local_client, text):
    waits, before = [], []

    async def meddle_once(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            raise EnoughError
        before.append((await annotations(local_client))[REGISTER])
        await local_client.patch(NODES, "n1", {"metadata": {"annotations": {REGISTER: text}}})

    with pytest.raises(EnoughError):
        await registration.keep(sleep=meddle_once)
    assert (waits[0] <= 30, (await annotations(local_client))[REGISTER]) == (True, before[0])


async def test_an_annotation_changed_by_others_is_written_again(registration, local_client):
    await registration.tick()
    await local_client.patch(NODES, "n1", {"metadata": {"annotations": {REGISTER: "[]"}}})
    assert await registration.tick()


async def test_p_02_an_annotation_deleted_by_others_is_written_again(registration, local_client):
    await registration.tick()
    await local_client.patch(NODES, "n1", {"metadata": {"annotations": {REGISTER: None}}})
    assert await registration.tick()


async def test_p_01_a_write_that_failed_is_made_up_for(registration, local_server):
    local_server.faults.add(InjectedFault("PATCH", "/nodes/n1", status=500))
    with pytest.raises(ApiError):
        await registration.tick()
    assert await registration.tick()


@pytest.mark.parametrize(
    ("fault", "wait_s"), [(InjectedFault(times=0), 30), (InjectedFault("GET", "/nodes/n1", status=500), 5)]
)
async def test_the_loop_waits_longer_after_a_success(registration, local_server, fault, wait_s):
    waits = []

    async def note(seconds):
        waits.append(seconds)
        raise EnoughError

    if fault.status:
        local_server.faults.add(fault)
    with pytest.raises(EnoughError):
        await registration.keep(sleep=note)
    assert waits == [wait_s]


async def test_a_card_that_cannot_be_written_ends_nothing(make_registration, machine, local_client):
    """A name with a comma, in a form with commas."""
    registration = make_registration(register_format="csv9")
    card, *others = machine.gpus
    waits = []

    async def mend_once(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            raise EnoughError
        read.return_value = (card, *others)

    read = AsyncMock(return_value=(replace(card, name="NVIDIA A40, old"), *others))
    with patch.object(machine, "read_gpus", read), capture_logs() as lines, pytest.raises(EnoughError):
        await registration.keep(sleep=mend_once)
    assert ["old" in line["error"] for line in lines if line["event"] == "registration failed"] == [True]
    assert card.uuid in (await annotations(local_client))[REGISTER]


async def test_nothing_is_written_while_a_card_is_being_divided(registration, settings, local_client):
    waits = []

    async def end_the_division(seconds):
        waits.append((seconds, [*await annotations(local_client)]))
        if len(waits) == 2:
            raise EnoughError
        settings.mig_lock.unlink()

    settings.mig_lock.parent.mkdir(parents=True)
    settings.mig_lock.touch()
    with pytest.raises(EnoughError):
        await registration.keep(sleep=end_the_division)
    assert waits == [(5, []), (30, [REGISTER])]


async def test_p_04_a_driver_that_fails_leaves_the_last_annotation(registration, machine, local_client):
    await registration.tick()
    before = await annotations(local_client)
    machine.set_faults([SimulatedFault(kind="failing")])
    with pytest.raises(CardReadError):
        await registration.tick()
    assert await annotations(local_client) == before


async def test_cards_that_are_known_to_be_sick_are_told_although_the_driver_fails(
    registration, inventory, book, machine, local_client
):
    await registration.tick()
    machine.set_faults([SimulatedFault(kind="failing")])
    book.note(machine.gpus[0].uuid, "the simulated driver fails", 0)
    await inventory.apply_health()
    with pytest.raises(CardReadError):
        await registration.tick()
    cards = decode_register((await annotations(local_client))[REGISTER])
    assert [card.healthy for card in cards] == [False, True, True, True]


async def test_a_driver_that_never_told_its_cards_registers_none(registration, machine, local_client):
    machine.set_faults([SimulatedFault(kind="failing")])
    with pytest.raises(CardReadError):
        await registration.tick()
    assert REGISTER not in await annotations(local_client)


async def test_neither_scores_nor_handshake_are_written_unasked(registration, local_client):
    await registration.tick()
    assert [*await annotations(local_client)] == [REGISTER]


async def test_pair_scores_are_written_where_they_are_wanted(make_registration, machine, local_client):
    await make_registration(report_topology=True).tick()
    scores = decode_pair_scores((await annotations(local_client))[SCORES])
    one, other, third, _ = (gpu.uuid for gpu in machine.gpus)
    assert (scores[one][other], scores[one][third], one in scores[one]) == (1230, 10, False)


class VirtualMachine(SimulatedMachine):
    """A machine that does not tell how its cards are connected for as long as there is a reason."""

    reason = "Not Supported"

    async def read_interconnect(self, uuids):
        if self.reason:
            raise CardReadError(self.reason)
        return await super().read_interconnect(uuids)


@pytest.fixture
def virtual():
    return VirtualMachine("n1", load_machine("mixed"))


@pytest.fixture
def unconnected(make_registration, virtual):
    """What registers cards of which nobody can say how they are connected."""
    return make_registration(nvml=virtual, report_topology=True)


async def test_cards_of_which_nobody_says_how_they_are_connected_are_registered(unconnected, local_client):
    assert await unconnected.tick()
    assert [*await annotations(local_client)] == [REGISTER]


async def test_scores_that_others_left_are_taken_back_where_nobody_says_how_cards_are_connected(
    unconnected, local_client
):
    await local_client.patch(NODES, "n1", {"metadata": {"annotations": {SCORES: '[{"uuid":"GPU-old","score":{}}]'}}})
    await unconnected.tick()
    assert SCORES not in await annotations(local_client)


async def test_scores_stay_while_the_same_cards_do_not_say_how_they_are_connected(unconnected, virtual, local_client):
    virtual.reason = ""
    await unconnected.tick()
    before = (await annotations(local_client))[SCORES]
    virtual.reason = "Timeout"
    await unconnected.tick()
    assert (await annotations(local_client))[SCORES] == before


async def test_scores_go_with_their_cards_where_the_others_do_not_say_how_they_are_connected(
    unconnected, virtual, local_client
):
    virtual.reason = ""
    await unconnected.tick()
    virtual.describe(load_machine("two-t4"))
    virtual.reason = "Not Supported"
    await unconnected.tick()
    assert SCORES not in await annotations(local_client)


async def test_cards_that_do_not_say_how_they_are_connected_are_told_of_once_for_each_reason(unconnected, virtual):
    with capture_logs() as logs:
        for reason in ("Not Supported", "Not Supported", "Timeout", "", "Timeout"):
            virtual.reason = reason
            await unconnected.tick()
    told = [line["error"] for line in logs if line["log_level"] == "warning"]
    assert told == ["Not Supported", "Timeout", "Timeout"]


async def test_the_handshake_is_answered_where_it_is_wanted(make_registration, local_client):
    await make_registration(report_handshake=True).tick()
    assert (await annotations(local_client))["hami.io/node-handshake"] == (
        "Reported 2024-01-23 04:30:04.434037 +0000 UTC"
    )


async def test_a_card_that_falls_sick_is_told_at_once(registration, machine, local_client):
    waits = asyncio.Event()

    async def wait_forever(seconds):
        del seconds
        waits.set()
        await asyncio.Event().wait()

    keeping = asyncio.create_task(registration.keep(sleep=wait_forever))
    await waits.wait()
    await machine.set_health(machine.gpus[0].uuid, healthy=False)
    await registration._inventory.refresh()
    waits.clear()
    await waits.wait()
    assert not decode_register((await annotations(local_client))[REGISTER])[0].healthy
    keeping.cancel()
    await asyncio.wait({keeping})


async def test_a_card_that_falls_sick_while_the_node_is_written_is_told_at_once(
    registration, inventory, book, machine, local_client, monkeypatch
):
    patch, is_told = local_client.patch, asyncio.Event()

    async def fall_sick_after_writing(*args, **options):
        written = await patch(*args, **options)
        if book.sick:
            is_told.set()
        book.note(machine.gpus[0].uuid, "Xid 79", 0)
        await inventory.apply_health()
        return written

    async def wait_forever(seconds):
        del seconds
        await asyncio.Event().wait()

    monkeypatch.setattr(local_client, "patch", fall_sick_after_writing)
    keeping = asyncio.create_task(registration.keep(sleep=wait_forever))
    async with asyncio.timeout(10):
        await is_told.wait()
    assert not decode_register((await annotations(local_client))[REGISTER])[0].healthy
    keeping.cancel()
    await asyncio.wait({keeping})


class LopsidedMachine(SimulatedMachine):
    """Two cards of which only the first sees the link between them."""

    async def read_interconnect(self, uuids):
        one, other = self.gpus
        links = {one.uuid: (NvLink(other.pci_bus_id),), other.uuid: ()}
        return replace(await super().read_interconnect(uuids), links=links)


async def test_a_lopsided_pair_is_one_event_of_the_node(settings, local_client):
    await local_client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    machine = LopsidedMachine("n1", load_machine("two-t4"))
    changed = replace(settings, report_topology=True)
    async with EventRecorder(local_client, "hami-device-plugin") as recorder:
        inventory = CardInventory(machine, changed, HealthBook(changed.health))
        registration = NodeRegistration(changed, local_client, inventory, machine, recorder)
        await registration.tick()
        await registration.tick()
    events, _ = await local_client.list_all(EVENTS, namespace="default")
    assert [(event.reason, event.type, event.involved_object.name, event.count) for event in events] == [
        ("AsymmetricGPUP2PLink", "Warning", "n1", 1)
    ]


async def test_a_plugin_that_runs_in_a_pod_says_that_its_node_needs_no_lock(make_registration, local_client):
    await make_registration(pod_uid="0c9b").tick()
    assert (await annotations(local_client))["gpuloom.io/serves"] == "NVIDIA;0c9b"


async def test_a_plugin_without_a_pod_says_nothing_about_locks(registration, local_client):
    await registration.tick()
    assert "gpuloom.io/serves" not in await annotations(local_client)
