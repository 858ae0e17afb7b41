import asyncio
import os
import re
from pathlib import Path

import pytest

from gpuloom.model.mig import Placement
from gpuloom.node.errors import CardReadError, DriverSilentError, MachineError
from gpuloom.node.nvml import Ancestor, Coverage, NvLink, XidEvent
from gpuloom.node.simulated import (
    Fault,
    MachineDescription,
    SimulatedMachine,
    load_machine,
    parse_machine,
    shipped_machines,
)
from gpuloom.node.simulated.description import Slot
from gpuloom.node.simulated.machine import find_ancestor
from gpuloom.node.topology import score_pairs

TWO_CARDS = b'[[cards]]\nmodel = "Tesla T4"\nmemory_mib = 15360\ncount = 2\n'


def describe() -> MachineDescription:
    return parse_machine(TWO_CARDS, source="two.toml")


@pytest.mark.parametrize("name", shipped_machines())
async def test_every_shipped_machine_has_cards_with_real_looking_uuids(name):
    gpus = await SimulatedMachine("n1", load_machine(name)).read_gpus()
    assert gpus
    assert all(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", gpu.uuid) for gpu in gpus)


def test_a_node_finds_the_same_cards_at_every_start():
    assert SimulatedMachine("n1", describe()).gpus == SimulatedMachine("n1", describe()).gpus


def test_no_two_cards_of_two_nodes_share_a_uuid():
    gpus = SimulatedMachine("n1", describe()).gpus + SimulatedMachine("n2", describe()).gpus
    assert len({gpu.uuid for gpu in gpus}) == 4


def test_a_machine_is_read_from_a_file_of_ones_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(TWO_CARDS)
    assert load_machine(str(path)) == describe()


def test_an_unknown_key_is_named_with_its_file():
    with pytest.raises(MachineError, match=r"mine\.toml.*`memory`.*cards\[0\]"):
        parse_machine(b'[[cards]]\nmodel = "x"\nmemory_mib = 1\nmemory = 4\n', source="mine.toml")


def test_a_value_out_of_range_is_named_with_its_key():
    with pytest.raises(MachineError, match=r"cards\[0\]\.memory_mib"):
        parse_machine(b'[[cards]]\nmodel = "x"\nmemory_mib = 0\n', source="mine.toml")


def test_broken_toml_names_the_file():
    with pytest.raises(MachineError, match=r"mine\.toml"):
        parse_machine(b"[[cards]", source="mine.toml")


def test_a_missing_file_tells_which_machines_there_are():
    with pytest.raises(MachineError, match=r"no/such\.toml: No such file.*four-l4"):
        load_machine("no/such.toml")


async def test_a_card_that_falls_sick_ends_the_wait_for_events():
    machine = SimulatedMachine("n1", describe(), tick_s=60)
    waiting = asyncio.create_task(machine.wait_for_event())
    await machine.set_health(machine.gpus[1].uuid, healthy=False)
    assert await waiting is None


async def test_a_lost_card_stays_in_the_list_as_unhealthy():
    machine = SimulatedMachine("n1", describe())
    await machine.set_health(machine.gpus[1].uuid, healthy=False)
    assert [gpu.healthy for gpu in await machine.read_gpus()] == [True, False]


async def test_a_wait_without_an_event_ends_after_a_while():
    assert await SimulatedMachine("n1", describe(), tick_s=0).wait_for_event() is None


async def test_an_error_raised_by_hand_is_reported():
    machine = SimulatedMachine("n1", describe())
    machine.raise_xid(machine.gpus[0].uuid, 79)
    assert await machine.wait_for_event() == XidEvent(machine.gpus[0].uuid, 79)


def faulty(*faults: Fault) -> SimulatedMachine:
    machine = SimulatedMachine("n1", describe(), tick_s=0)
    machine.set_faults(faults)
    return machine


async def test_an_xid_fault_reports_once():
    machine = faulty(Fault(kind="xid", card=1, xid=48))
    assert [await machine.wait_for_event(), await machine.wait_for_event()] == [
        XidEvent(machine.gpus[1].uuid, 48),
        None,
    ]


async def test_a_lost_card_cannot_be_watched():
    assert [*(await faulty(Fault(kind="lost", card=0)).watch_events()).values()] == [Coverage.FAILED, Coverage.WATCHED]


async def test_a_lost_card_answers_no_question():
    machine = faulty(Fault(kind="lost", card=0))
    with pytest.raises(CardReadError, match="is lost"):
        await machine.probe(machine.gpus[0].uuid)


async def test_a_card_that_left_the_machine_answers_no_question():
    machine = SimulatedMachine("n1", describe())
    gone = machine.gpus[1].uuid
    machine.describe(parse_machine(TWO_CARDS.replace(b"count = 2", b""), source="one.toml"))
    with pytest.raises(CardReadError, match=f"no card {gone} any more"):
        await machine.probe(gone)


async def test_a_failing_driver_does_not_list_cards():
    with pytest.raises(CardReadError):
        await faulty(Fault(kind="failing")).read_gpus()


async def test_a_failing_card_leaves_the_others_alone():
    machine = faulty(Fault(kind="failing", card=0))
    await machine.probe(machine.gpus[1].uuid)


async def test_a_silent_driver_runs_into_the_deadline():
    with pytest.raises(DriverSilentError):
        await faulty(Fault(kind="silent")).read_gpus()


async def test_a_slow_driver_answers():
    assert len(await faulty(Fault(kind="slow", delay_s=0.001)).read_gpus()) == 2


def test_a_fault_of_a_card_that_is_not_there_is_named():
    with pytest.raises(MachineError, match=r"faults\[0\]\.card is 2, but there are 2 cards"):
        parse_machine(TWO_CARDS + b'[[faults]]\nkind = "lost"\ncard = 2\n', source="mine.toml")


def test_a_lost_card_must_be_named():
    with pytest.raises(MachineError, match=r"faults\[0\] must say which card is lost"):
        parse_machine(TWO_CARDS + b'[[faults]]\nkind = "lost"\n', source="mine.toml")


async def test_an_edited_description_takes_effect(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(TWO_CARDS)
    machine = SimulatedMachine.load("n1", str(path))
    replace_file(path, TWO_CARDS + b'[[faults]]\nkind = "xid"\ncard = 1\n')
    machine.raise_xid(None, 1)
    assert [await machine.wait_for_event(), await machine.wait_for_event()] == [
        XidEvent(None, 1),
        XidEvent(machine.gpus[1].uuid, 79),
    ]


async def test_a_description_edited_into_nonsense_changes_nothing(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(TWO_CARDS)
    machine = SimulatedMachine.load("n1", str(path))
    replace_file(path, b"[[cards")
    machine.raise_xid(None, 1)
    await machine.wait_for_event()
    assert len(machine.gpus) == 2


def replace_file(path: Path, text: bytes) -> None:
    """Write a file with a time of change that no clock gives twice."""
    path.write_bytes(text)
    os.utime(path, ns=(0, 0))


@pytest.mark.parametrize(
    ("one", "other", "ancestor"),
    [
        (Slot(0, "0/0"), Slot(1, "0/0"), Ancestor.SYSTEM),
        (Slot(0, "0/0"), Slot(0, "1/0"), Ancestor.NODE),
        (Slot(0), Slot(0), Ancestor.NODE),
        (Slot(0, "0/0"), Slot(0), Ancestor.NODE),
        (Slot(0, "0"), Slot(0, "0"), Ancestor.HOSTBRIDGE),
        (Slot(0, "0/0"), Slot(0, "0/1"), Ancestor.HOSTBRIDGE),
        (Slot(0, "0/0/1"), Slot(0, "0/0/2"), Ancestor.MULTIPLE),
        (Slot(0, "0/0"), Slot(0, "0/0"), Ancestor.SINGLE),
    ],
)
def test_the_ways_to_two_slots_say_what_their_cards_have_in_common(one, other, ancestor):
    assert find_ancestor(one, other) is ancestor


@pytest.mark.parametrize(
    ("name", "cards", "pairs"),
    [
        ("eight-a100-40gb", 8, {1250, 1220, 1210}),
        ("eight-h100-80gb", 8, {1850, 1820, 1810}),
        ("four-l4", 4, {20, 10}),
        ("two-t4", 2, {30}),
        ("mixed", 4, {1230, 20, 10}),
    ],
)
async def test_a_shipped_machine_is_linked_as_it_says(name, cards, pairs):
    machine = SimulatedMachine("n1", load_machine(name))
    scores, _ = score_pairs(machine.gpus, await machine.read_interconnect([gpu.uuid for gpu in machine.gpus]))
    assert (len(scores), {score for peers in scores.values() for score in peers.values()}) == (cards, pairs)


@pytest.mark.parametrize(
    ("name", "divisible", "most"), [("eight-a100-40gb", 8, 7), ("eight-h100-80gb", 8, 7), ("mixed", 2, 7)]
)
async def test_a_shipped_machine_can_be_divided_into_as_many_instances_as_the_real_one(name, divisible, most):
    machine = SimulatedMachine("n1", load_machine(name))
    profiles = [await machine.mig.read_profiles(gpu.uuid) for gpu in machine.gpus]
    assert [max(one.most for one in found) for found in profiles if found] == [most] * divisible


async def test_a_card_is_not_divided_while_mig_is_off():
    machine = SimulatedMachine("n1", load_machine("eight-a100-40gb"))
    card = machine.gpus[0].uuid
    with pytest.raises(CardReadError, match="MIG is off"):
        await machine.mig.create_part(card, "1g.5gb", Placement(0, 1))
    await machine.mig.enable(card)
    await machine.mig.create_part(card, "1g.5gb", Placement(0, 1))


INSTANCES = (
    '[[cards]]\nmodel = "NVIDIA A100-SXM4-40GB"\nmemory_mib = 40960\ninstances = [{names}]\n'
    '[[cards.mig_profiles]]\nname = "3g.20gb"\nmemory_mib = 20096\nmultiprocessors = 42\nsize = 4\nstarts = [0, 4]\n'
)


def divide(*names):
    return parse_machine(INSTANCES.format(names=", ".join(f'"{name}"' for name in names)).encode(), source="m.toml")


async def test_a_card_that_an_administrator_divided_has_its_instances():
    (gpu,) = SimulatedMachine("n1", divide("3g.20gb", "3g.20gb")).gpus
    found = [(device.profile, device.memory_mib, device.gpu_instance_id) for device in gpu.devices]
    assert (gpu.can_be_divided, found) == (True, [("3g.20gb", 20096, 1), ("3g.20gb", 20096, 2)])


@pytest.mark.parametrize(
    ("names", "text"),
    [(["3g.20gb"] * 3, "no room for an instance 3g.20gb"), (["9g.1gb"], "no profile 9g.1gb in mig_profiles")],
)
def test_instances_that_a_card_cannot_have_are_named(names, text):
    with pytest.raises(MachineError, match=rf"m\.toml: cards\[0\]\.instances: {text}"):
        divide(*names)


async def test_an_instance_is_probed_as_its_card_is():
    machine = SimulatedMachine("n1", divide("3g.20gb"))
    instance = machine.gpus[0].devices[0].uuid
    await machine.probe(instance)
    machine.set_faults([Fault(kind="lost", card=0)])
    with pytest.raises(CardReadError):
        await machine.probe(instance)


async def test_a_bridge_joins_the_cards_of_its_group():
    machine = SimulatedMachine("n1", load_machine("mixed"))
    links = (await machine.read_interconnect([gpu.uuid for gpu in machine.gpus])).links
    assert links[machine.gpus[0].uuid] == (NvLink(machine.gpus[1].pci_bus_id),) * 12


async def test_only_a_card_of_the_machine_can_fall_sick():
    with pytest.raises(MachineError, match="no card GPU-none"):
        await SimulatedMachine("n1", describe()).set_health("GPU-none", healthy=False)
