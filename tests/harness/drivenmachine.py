"""A machine whose driver is the stub, and the self-test of it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.stubdriver import StubCard, StubDriver, StubLink

UUIDS = ("GPU-7aebc545-cbd3-18a0-afce-76cae449702a", "GPU-1afede84-4e70-2174-49af-f07ebb94d1ae")
COMMAND = (sys.executable, "-m", "gpuloom.cli", "selftest")
TIMEOUT_S = 240
_STUBS = Path(__file__).parent / "stubdriver"


@dataclass
class DrivenMachine:
    """A machine with the stub as its driver, and the programs of `programs` first in its PATH.

    `containerd` is what the self-test is told of containers.
    """

    driver: StubDriver
    libraries: Path
    programs: Path
    containerd: str = "off"
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of programs on this machine."""
        return {
            **{name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"},
            **self.driver.environment,
            "LD_LIBRARY_PATH": str(self.libraries),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            **self.environment,
        }

    @property
    def limiter(self) -> tuple[str, ...]:
        """What lets programs load the stub of HAMi-core, whose cores are measured for as short as is enough."""
        return "--library", str(self.libraries / "libvgpu.so"), "--seconds", "3"

    def command(self, *arguments: str) -> list[str]:
        """Return the self-test's command line."""
        return [*COMMAND, f"--containerd={self.containerd}", *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Let the self-test run to its end."""
        return subprocess.run(
            self.command(*arguments),
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )

    def report(self, *arguments: str) -> tuple[int, Mapping[str, tuple[str, str]]]:
        """Return the exit code and what the report says of each step: its outcome and its text."""
        done = self.run("-o", "json", *arguments)
        assert done.stdout, done.stderr
        return done.returncode, read_steps(done.stdout)

    def install(self, stub: str, name: str) -> Path:
        """Give the machine a stub of a program, under its name."""
        program = self.programs / name
        program.write_text(f"#!{sys.executable}\n{(_STUBS / stub).read_text()}")
        program.chmod(0o755)
        return program

    def write_program(self, name: str, text: str) -> Path:
        """Give the machine a program of the shell."""
        program = self.programs / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        return program


def read_steps(report: str) -> Mapping[str, tuple[str, str]]:
    """Return outcome and text of each step of a report in JSON."""
    return {step["name"]: (step["outcome"], step.get("text", "")) for step in json.loads(report)["steps"]}


def make_machine(directory: Path, libraries: Path) -> DrivenMachine:
    """Return a machine of two cards, with nvidia-smi."""
    programs = directory / "bin"
    programs.mkdir()
    one, other = (f"00000000:{bus}:00.0" for bus in ("3B", "5E"))
    driver = StubDriver(
        directory / "driver.json",
        StubCard(UUIDS[0], "NVIDIA L4", 23034 * 2**20, pci_bus_id=one, links=[StubLink(other)]),
        StubCard(UUIDS[1], "NVIDIA L4", 23034 * 2**20, pci_bus_id=other, minor=1, links=[StubLink(one)]),
        wait_ms=100,
    )
    machine = DrivenMachine(driver, libraries, programs)
    machine.install("nvidia_smi.py", "nvidia-smi")
    return machine
