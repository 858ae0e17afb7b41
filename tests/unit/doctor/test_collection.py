"""What is collected of a faked machine, and that one closed folder does not end it."""

from pathlib import Path

import pytest
from unit.doctor.writing import closed, write

from gpuloom.doctor.checks import Unseen, run_checks
from gpuloom.doctor.findings import Severity
from gpuloom.doctor.machine.catalogue import MACHINE_CHECKS
from gpuloom.doctor.machine.collection import Configuration, collect_machine, looks_like_node
from gpuloom.doctor.machine.facts import MachineFacts
from gpuloom.node.settings import NodeSettings
from gpuloom.node.simulated import SimulatedMachine

CARDS = SimulatedMachine.load("n1", "two-t4")


@pytest.fixture
def settings(tmp_path: Path) -> NodeSettings:
    return NodeSettings(node_name="n1", host_root=tmp_path, plugins_dir=tmp_path / "kubelet/device-plugins")


async def collect(settings: NodeSettings, device_config: Path | None = None) -> MachineFacts:
    return await collect_machine(Configuration(settings, device_config), CARDS)


async def test_the_class_of_pods_with_cards_is_read(settings: NodeSettings, tmp_path: Path) -> None:
    path = write(tmp_path / "device-config.yaml", "nvidia: {runtimeClassName: nvidia}")
    assert (await collect(settings, path)).runtime_class == "nvidia"


@pytest.mark.parametrize("name", ["missing.yaml", None])
async def test_without_a_configuration_the_class_of_pods_is_not_known(
    settings: NodeSettings, tmp_path: Path, name: str | None
) -> None:
    assert isinstance((await collect(settings, tmp_path / name if name else None)).runtime_class, Unseen)


async def test_a_configuration_that_this_account_may_not_read_is_no_fault_of_it(
    settings: NodeSettings, tmp_path: Path
) -> None:
    path = write(tmp_path / "device-config.yaml", "nvidia: {}")
    with closed(path):
        facts = await collect(settings, path)
    assert isinstance(facts.settings_error, Unseen)


async def test_a_host_that_this_account_may_not_look_into_is_reported_on(
    settings: NodeSettings, tmp_path: Path
) -> None:
    with closed(tmp_path):
        facts = await collect(settings)
    found = {one.check: one.severity for one in run_checks(MACHINE_CHECKS, facts, "node n1")}
    checks = ("container-runtime", "second-plugin", "library", "preload")
    assert {check: found[check] for check in checks} == dict.fromkeys(checks, Severity.SKIPPED)


def test_a_folder_of_the_kubelet_makes_a_node(settings: NodeSettings) -> None:
    settings.plugins_dir.mkdir(parents=True)
    assert looks_like_node(settings)


def test_a_machine_without_that_folder_is_no_node(settings: NodeSettings) -> None:
    assert not looks_like_node(settings)


def test_a_folder_of_the_kubelet_that_is_closed_makes_a_node(settings: NodeSettings) -> None:
    settings.plugins_dir.mkdir(parents=True)
    with closed(settings.plugins_dir.parent):
        assert looks_like_node(settings)
