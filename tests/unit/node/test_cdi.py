"""Specifications for container runtimes; a script stands for NVIDIA's tool."""

import asyncio
from dataclasses import replace

import pytest

from gpuloom.node import cdi as module
from gpuloom.node.cdi import build_commands, write_specs
from gpuloom.node.errors import ConfigurationError, KubeletError
from gpuloom.node.settings import InjectionSettings

VENDOR = "k8s.device-plugin.nvidia.com"


@pytest.fixture
def cdi(settings, tmp_path):
    injection = InjectionSettings(
        list_strategies=("cdi-cri",),
        driver_parts=("gds",),
        driver_root="/drv",
        driver_root_here=str(tmp_path / "drv"),
        dev_root="/dv",
    )
    return replace(settings, host_root=tmp_path, injection=injection)


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Put a shell script in the tool's place."""

    def install(script):
        (tmp_path / "bin").mkdir()
        path = tmp_path / "bin/nvidia-ctk"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    return install


def test_the_cards_and_every_part_of_the_driver_get_a_specification(cdi, tmp_path):
    cards, part = build_commands(cdi)
    common = ["--nvidia-cdi-hook-path=/usr/bin/nvidia-cdi-hook", "--driver-root=/drv", "--dev-root=/dv"]
    start = ["nvidia-ctk", "cdi", "generate"]
    target = f"--output={tmp_path}/var/run/cdi/{VENDOR}"
    assert cards == [
        *start, f"{target}-gpu.json", "--format=json", f"--vendor={VENDOR}", "--class=gpu", *common,
        "--device-name-strategy=uuid",
    ]  # fmt: skip
    assert part == [
        *start, f"{target}-gds.json", "--format=json", f"--vendor={VENDOR}", "--class=gds", *common, "--mode=gds",
    ]  # fmt: skip


def test_channels_between_machines_get_a_specification(cdi):
    *_, channels = build_commands(replace(cdi, injection=replace(cdi.injection, imex_channels=(0, 3))))
    assert ("--class=imex-channel" in channels, "--mode=imex" in channels) == (True, True)


def test_a_driver_that_is_mounted_elsewhere_is_written_with_the_hosts_paths(cdi, tmp_path):
    mounted = tmp_path / "drv"
    mounted.mkdir()
    generate, transform, *_ = build_commands(replace(cdi, injection=replace(cdi.injection, dev_root="/drv")))
    target = f"{tmp_path}/var/run/cdi/{VENDOR}-gpu.json"
    assert (f"--driver-root={mounted}" in generate, f"--dev-root={mounted}" in generate) == (True, True)
    assert transform == [
        "nvidia-ctk", "cdi", "transform", "root", f"--from={mounted}", "--to=/drv", "--relative-to=host",
        f"--input={target}", f"--output={target}",
    ]  # fmt: skip


async def test_the_tool_is_run_for_each(cdi, tool, tmp_path):
    tool(f'echo "$@" >> {tmp_path}/calls')
    await write_specs(cdi)
    assert len((tmp_path / "calls").read_text().splitlines()) == 2


async def test_without_cdi_the_tool_is_not_run(settings, tool, tmp_path):
    tool(f"touch {tmp_path}/called")
    await write_specs(settings)
    assert not (tmp_path / "called").exists()


async def test_a_missing_tool_says_what_to_install(cdi, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="install the NVIDIA container toolkit"):
        await write_specs(cdi)


async def test_a_tool_that_fails_is_quoted(cdi, tool):
    tool("echo first >&2; echo no driver here >&2; exit 1")
    with pytest.raises(KubeletError, match="cannot write a CDI specification: no driver here"):
        await write_specs(cdi)


async def test_a_tool_that_cannot_be_started_is_tried_again(cdi, tool, tmp_path):
    tool("true")
    (tmp_path / "bin/nvidia-ctk").chmod(0o644)
    with pytest.raises(KubeletError, match="nvidia-ctk cannot be started: Permission denied"):
        await write_specs(cdi)


class Undead:
    """A process that hangs in the kernel, whatever is done to it."""

    returncode = None

    async def communicate(self):
        await asyncio.Event().wait()

    async def wait(self):
        await asyncio.Event().wait()

    def kill(self):
        pass


@pytest.mark.slow
async def test_a_tool_that_does_not_even_die_keeps_nobody_waiting(cdi, monkeypatch):
    async def start(*command, **options):
        del command, options
        return Undead()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    monkeypatch.setattr(module, "_DEADLINE_S", 0.01)
    async with asyncio.timeout(10):
        with pytest.raises(KubeletError, match="did not write a CDI specification within"):
            await write_specs(cdi)
