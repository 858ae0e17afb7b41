"""The doctor on the machine of a local cluster, whose kubelet and device plugin are real sockets."""

import platform
from pathlib import Path

import pytest
from local.doctor.examining import examine, run, severities

from gpuloom.local.cluster import LocalCluster

MACHINES = {"x86_64": 62, "aarch64": 183}
LIBRARY = b"\x7fELF\x02\x01\x01" + bytes(9) + bytes([3, 0, MACHINES[platform.machine()], 0]) + bytes(44)


def machine(directory: Path) -> tuple[str, ...]:
    """Flags that name the local node's files."""
    root = directory / "n1"
    return (
        *("--node-name=n1", "--cards=two-t4", f"--host-root={root}"),
        *(f"--kubelet-socket={root}/dp/kubelet.sock", "--node-config-file=/nowhere"),
    )


async def test_sockets_of_a_working_node_answer(cluster: LocalCluster, directory: Path) -> None:
    _, findings = await examine(*machine(directory))
    checks = ("kubelet", "plugin", "cards", "configuration", "driver")
    assert severities(findings, *checks) == dict.fromkeys(checks, "ok")


async def test_the_placeholder_of_a_library_is_found_out(cluster: LocalCluster, directory: Path) -> None:
    code, findings = await examine(*machine(directory))
    assert (code, findings["library"][0]["text"]) == (
        1,
        "is no shared library, so programs in containers ignore it and are not limited",
    )


async def test_a_whole_node_gets_exit_code_0(cluster: LocalCluster, directory: Path) -> None:
    root = directory / "n1"
    (root / "usr/local/vgpu/libvgpu.so").write_bytes(LIBRARY)
    (root / "usr/local/vgpu/ld.so.preload").write_text("/usr/local/vgpu/libvgpu.so\n")
    code, findings = await examine(*machine(directory))
    bad = [item for items in findings.values() for item in items if item["severity"] in {"error", "warning"}]
    assert (code, bad) == (0, [])


async def test_a_kubelet_that_stopped_is_found_out(cluster: LocalCluster, directory: Path) -> None:
    (directory / "n1/dp/kubelet.sock").unlink()
    _, findings = await examine(*machine(directory))
    assert findings["kubelet"][0]["object"] == f"{directory}/n1/dp/kubelet.sock"


async def test_a_device_configuration_that_cannot_be_used_is_found_out(directory: Path) -> None:
    (directory / "device-config.yaml").write_text("nvidia: {deviceMemoryScaling: -1}")
    _, findings = await examine("--node", *machine(directory), f"--config-file={directory}/device-config.yaml")
    assert "deviceMemoryScaling" in findings["configuration"][0]["text"]


async def test_people_get_a_table_with_bad_things_first(directory: Path) -> None:
    _, told = await run(*machine(directory), "--node")
    heading, first, *_ = told.splitlines()
    assert (heading.split()[:2], first.split()[0]) == (["SEVERITY", "CHECK"], "error")


@pytest.mark.parametrize("flag", ["--device-list-strategy=none", "--output=xml"])
async def test_wrong_usage_has_exit_code_2(flag: str) -> None:
    assert (await run(flag))[0] == 2


async def test_a_machine_with_a_kubelet_is_looked_at_without_being_named(
    cluster: LocalCluster, directory: Path
) -> None:
    _, findings = await examine(*machine(directory))
    assert ("driver" in findings, "webhook" in findings) == (True, False)
