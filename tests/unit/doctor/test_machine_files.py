"""What is read below a faked root directory."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from unit.doctor.writing import closed, write

from gpuloom.doctor.checks import Unseen
from gpuloom.doctor.machine.facts import CdiFacts, CdiSpec, Handler, Library, RuntimeConfig
from gpuloom.doctor.machine.files import (
    read_cdi,
    read_device_files,
    read_kernel_driver,
    read_library,
    read_mode,
    read_registered,
)
from gpuloom.doctor.machine.runtimeconfig import read_runtimes
from gpuloom.node.settings import NodeSettings

OPEN_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build\nGCC version: 13.2.0\n"
OLD_MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12\n"


@pytest.fixture
def settings(tmp_path: Path) -> NodeSettings:
    return NodeSettings(node_name="n1", host_root=tmp_path, plugins_dir=tmp_path / "dp")


def elf(kind: int, machine: int) -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", kind, machine) + bytes(44)


@pytest.mark.parametrize(("text", "version"), [(OPEN_MODULE, "570.86.10"), (OLD_MODULE, "535.183.01"), ("?", "")])
def test_the_version_in_the_kernel_is_read_in_both_spellings(tmp_path: Path, text: str, version: str) -> None:
    write(tmp_path / "proc/driver/nvidia/version", text)
    assert read_kernel_driver(tmp_path) == version


def test_a_kernel_without_the_driver_has_no_version(tmp_path: Path) -> None:
    assert read_kernel_driver(tmp_path) == ""


def test_device_files_are_found_below_the_drivers_root(tmp_path: Path) -> None:
    write(tmp_path / "run/nvidia/dev/nvidia0", "")
    assert read_device_files(tmp_path, "/run/nvidia") == frozenset({"/dev/nvidia0"})


@pytest.mark.parametrize(
    ("content", "kind"),
    [(elf(3, 62), "x86_64"), (elf(3, 183), "aarch64"), (elf(2, 62), ""), (b"placeholder", ""), (b"", "")],
)
def test_a_shared_library_is_told_by_its_header(settings: NodeSettings, content: bytes, kind: str) -> None:
    write(settings.host_root / "usr/local/vgpu/libvgpu.so", content)
    assert read_library(settings) == Library("/usr/local/vgpu/libvgpu.so", exists=True, kind=kind)


def test_the_library_that_containers_would_get_is_looked_at(settings: NodeSettings) -> None:
    write(settings.host_root / "usr/local/vgpu/libvgpu.so", elf(3, 62))
    write(settings.host_root / "usr/local/vgpu/libvgpu.so.2.10.0", b"broken")
    library = read_library(settings)
    assert library == Library("/usr/local/vgpu/libvgpu.so.2.10.0", exists=True, kind="")


def test_the_preload_list_is_read_line_by_line(settings: NodeSettings) -> None:
    write(settings.host_root / "usr/local/vgpu/ld.so.preload", "/usr/local/vgpu/libvgpu.so\n/other.so\n")
    library = read_library(settings)
    assert isinstance(library, Library)
    assert library.preload == ("/usr/local/vgpu/libvgpu.so", "/other.so")


def test_permissions_are_read(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks").chmod(0o751)
    assert (read_mode(tmp_path / "locks"), read_mode(tmp_path / "other")) == (0o751, None)


def test_the_kubelets_notes_tell_what_it_was_offered(settings: NodeSettings) -> None:
    notes = {"Data": {"PodDeviceEntries": None, "RegisteredDevices": {"nvidia.com/gpu": ["a", "b"]}}, "Checksum": 1}
    write(settings.plugins_dir / "kubelet_internal_checkpoint", json.dumps(notes))
    assert read_registered(settings) == {"nvidia.com/gpu": ("a", "b")}


def test_a_kubelet_without_notes_was_offered_nothing(settings: NodeSettings) -> None:
    assert read_registered(settings) == {}


@pytest.mark.parametrize("text", ["", "[]", '{"Data": 1}', '{"Data": {"RegisteredDevices": [1]}}'])
def test_notes_of_another_form_are_not_guessed_at(settings: NodeSettings, text: str) -> None:
    write(settings.plugins_dir / "kubelet_internal_checkpoint", text)
    assert isinstance(read_registered(settings), Unseen)


def find_cdi(settings: NodeSettings) -> CdiFacts:
    found = read_cdi(settings)
    assert not isinstance(found, Unseen)
    return found


def test_cdi_specifications_are_read_and_broken_ones_kept(settings: NodeSettings) -> None:
    folder = settings.host_root / "var/run/cdi"
    write(folder / "k8s.device-plugin.nvidia.com-gpu.json", '{"kind": "k", "devices": [{"name": "GPU-1"}]}')
    write(folder / "k8s.device-plugin.nvidia.com-imex.json", "{")
    write(folder / "other.json", "{")
    gpu, broken = find_cdi(settings).specs
    assert gpu == CdiSpec("/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json", "k", frozenset({"GPU-1"}))
    assert "JSONDecodeError" in broken.error


def test_the_hook_is_looked_for_on_the_host(settings: NodeSettings) -> None:
    write(settings.host_root / "usr/bin/nvidia-cdi-hook", "")
    other = replace(settings, injection=replace(settings.injection, cdi_hook_path="/opt/hook"))
    assert (find_cdi(settings).has_hook, find_cdi(other).has_hook) == (True, False)


CONTAINERD_1 = """
version = 2
[plugins."io.containerd.grpc.v1.cri"]
enable_cdi = true
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "nvidia"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
BinaryName = "/usr/bin/nvidia-container-runtime"
"""
CONTAINERD_2 = 'version = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n'
DROP_IN = """
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]
container_annotations = ["cdi.k8s.io/*"]
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia.options]
BinaryName = "nvidia-container-runtime"
"""
PROGRAM_1 = b"\x7fELF github.com/containerd/containerd/runtime/v2/shim"
PROGRAM_2 = b"\x7fELF github.com/containerd/containerd/v2/core/runtime"
CRIO = """
[crio.runtime]
default_runtime = "crun"
[crio.runtime.runtimes.nvidia]
runtime_path = "/usr/bin/nvidia-container-runtime"
"""
DOCKER = '{"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}}'


def read_one(root: Path) -> RuntimeConfig:
    found = read_runtimes(root)
    assert not isinstance(found, Unseen)
    (runtime,) = found
    return runtime


def test_containerds_own_file_is_read(tmp_path: Path) -> None:
    write(tmp_path / "usr/bin/nvidia-container-runtime", "")
    write(tmp_path / "etc/containerd/config.toml", CONTAINERD_1)
    handler = Handler("nvidia", "/usr/bin/nvidia-container-runtime", exists=True, annotations=())
    assert read_one(tmp_path) == RuntimeConfig(
        "/etc/containerd/config.toml", "nvidia", (handler,), has_cdi=True, containerd=0
    )


def test_files_that_containerd_imports_count(tmp_path: Path) -> None:
    write(tmp_path / "etc/containerd/config.toml", CONTAINERD_2)
    write(tmp_path / "etc/containerd/conf.d/99-nvidia.toml", DROP_IN)
    assert read_one(tmp_path).handlers == (
        Handler("nvidia", "nvidia-container-runtime", exists=False, annotations=("cdi.k8s.io/*",)),
    )


def test_files_that_containerd_imports_are_named_from_its_own_folder(tmp_path: Path) -> None:
    write(tmp_path / "etc/containerd/config.toml", CONTAINERD_2.replace("/etc/containerd/", ""))
    write(tmp_path / "etc/containerd/conf.d/99-nvidia.toml", DROP_IN)
    assert [handler.name for handler in read_one(tmp_path).handlers] == ["nvidia"]


@pytest.mark.parametrize(("told", "has_cdi"), [("", True), ("enable_cdi = false", False)])
def test_containerd_2_has_cdi_unless_it_is_switched_off(tmp_path: Path, told: str, *, has_cdi: bool) -> None:
    table = f'[plugins."io.containerd.cri.v1.runtime"]\n{told}\n'
    write(tmp_path / "etc/containerd/config.toml", f"{CONTAINERD_2}{table}")
    assert read_one(tmp_path).has_cdi is has_cdi


@pytest.mark.parametrize(
    ("programs", "version", "has_cdi"),
    [
        ({}, 0, None),
        ({"usr/bin": PROGRAM_1}, 1, None),
        ({"usr/local/bin": PROGRAM_2}, 2, True),
        ({"usr/bin": PROGRAM_1, "usr/local/bin": PROGRAM_2}, 0, None),
        ({"usr/bin": b"#!/bin/sh"}, 0, None),
        ({"usr/bin": b""}, 0, None),
    ],
)
def test_with_an_older_file_containerds_program_tells_its_version(
    tmp_path: Path, programs: dict[str, bytes], version: int, *, has_cdi: bool | None
) -> None:
    write(tmp_path / "etc/containerd/config.toml", "version = 2\n")
    for folder, content in programs.items():
        write(tmp_path / folder / "containerd", content)
    assert (read_one(tmp_path).containerd, read_one(tmp_path).has_cdi) == (version, has_cdi)


@pytest.mark.parametrize(
    "name", ["var/lib/rancher/k3s/agent/etc/containerd/config.toml", "var/snap/microk8s/current/args/containerd.toml"]
)
def test_distributions_have_containerd_elsewhere(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, CONTAINERD_1)
    assert read_one(tmp_path).path == f"/{name}"


def test_crio_is_read_with_its_additions(tmp_path: Path) -> None:
    write(tmp_path / "etc/crio/crio.conf", "")
    write(tmp_path / "etc/crio/crio.conf.d/99-nvidia.conf", CRIO)
    handler = Handler("nvidia", "/usr/bin/nvidia-container-runtime", exists=False)
    assert read_one(tmp_path) == RuntimeConfig("/etc/crio/crio.conf", "crun", (handler,))


def test_docker_counts_where_containerd_does_not_serve_the_kubelet(tmp_path: Path) -> None:
    write(tmp_path / "etc/containerd/config.toml", 'disabled_plugins = ["cri"]\n')
    write(tmp_path / "etc/docker/daemon.json", DOCKER)
    assert (read_one(tmp_path).path, read_one(tmp_path).default) == ("/etc/docker/daemon.json", "nvidia")


@pytest.mark.parametrize("name", ["etc/containerd/config.toml", "etc/crio/crio.conf", "etc/docker/daemon.json"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, "][")
    assert read_one(tmp_path).error


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("etc/containerd/config.toml", "disabled_plugins = 5"),
        ("etc/containerd/config.toml", "imports = 5"),
        ("etc/containerd/config.toml", "imports = [5]"),
        ("etc/crio/crio.conf", f"a = {'[' * 5000}"),
        ("etc/docker/daemon.json", "[" * 100_000),
    ],
)
def test_a_file_of_another_shape_than_a_runtime_reads_is_told(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path / name, text)
    assert read_one(tmp_path).error


def test_a_program_that_no_file_can_be_called_is_not_there(tmp_path: Path) -> None:
    write(tmp_path / "etc/docker/daemon.json", '{"runtimes": {"nvidia": {"path": "a\\u0000b"}}}')
    (handler,) = read_one(tmp_path).handlers
    assert not handler.exists


@pytest.mark.parametrize("text", ["plugins = 3\n", '[plugins]\n"io.containerd.grpc.v1.cri" = [1]\n'])
def test_a_table_of_another_shape_names_no_runtime(tmp_path: Path, text: str) -> None:
    write(tmp_path / "etc/containerd/config.toml", text)
    assert read_one(tmp_path).handlers == ()


def test_without_any_configuration_the_reason_says_what_to_do(tmp_path: Path) -> None:
    found = read_runtimes(tmp_path)
    assert isinstance(found, Unseen)
    assert "--host-root" in found.reason


def test_configurations_that_this_account_may_not_read_are_no_fault_of_the_runtime(tmp_path: Path) -> None:
    write(tmp_path / "etc/containerd/config.toml", CONTAINERD_1)
    with closed(tmp_path / "etc/containerd"):
        found = read_runtimes(tmp_path)
    assert isinstance(found, Unseen)
    assert "as root" in found.reason


def test_a_folder_of_the_library_that_this_account_may_not_look_into_is_told(settings: NodeSettings) -> None:
    write(settings.host_root / "usr/local/vgpu/libvgpu.so", elf(3, 62))
    with closed(settings.host_root / "usr/local"):
        assert isinstance(read_library(settings), Unseen)
