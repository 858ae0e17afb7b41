import asyncio
import re

import pytest

from gpuloom.node.errors import MachineError
from gpuloom.node.simulated import MachineDescription, SimulatedMachine, load_machine, parse_machine, shipped_machines

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


async def test_a_card_that_falls_sick_is_a_change():
    machine = SimulatedMachine("n1", describe())
    known = await machine.read_gpus()
    waiting = asyncio.create_task(machine.wait_for_change(known))
    await machine.set_health(known[1].uuid, healthy=False)
    assert [gpu.healthy for gpu in await waiting] == [True, False]


async def test_a_change_that_happened_before_is_told_at_once():
    machine = SimulatedMachine("n1", describe())
    assert await machine.wait_for_change(()) == machine.gpus


async def test_only_a_card_of_the_machine_can_fall_sick():
    with pytest.raises(MachineError, match="no card GPU-none"):
        await SimulatedMachine("n1", describe()).set_health("GPU-none", healthy=False)
