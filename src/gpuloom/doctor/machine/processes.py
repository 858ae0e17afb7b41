"""Finds device plugins among the processes of a machine, and what gpuloom's was told."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuloom.doctor.machine.facts import PluginProcess

_FOREIGN_PLUGINS = {"nvidia-device-plugin", "k8s-device-plugin", "nvidia-gpu-device-plugin"}
_COMMAND_CHARS = 120
_LARGEST_ENVIRONMENT_BYTES = 4 * 2**20
"""More than the kernel lets a program start with."""


@dataclass(frozen=True, slots=True)
class RunningPlugin:
    """gpuloom's device plugin as it was started.

    ``root`` is where this process sees its root directory, ``variables`` are None where this account may not read them.
    """

    root: Path
    flags: Sequence[str]
    variables: Mapping[str, str] | None

    def shares_files(self) -> bool:
        """Tell whether a path means the same file to it and to this process."""
        try:
            return self.root.samefile("/")
        except OSError:
            return False


def read_plugins(root: Path) -> tuple[PluginProcess, ...]:
    """Find the device plugins for NVIDIA cards that run where this process can see them."""
    found = _list_plugins(root / "proc")
    return tuple(PluginProcess(int(folder.name), " ".join(words)[:_COMMAND_CHARS]) for folder, words in found)


def find_plugin(root: Path) -> RunningPlugin | None:
    """Return gpuloom's device plugin that runs here; None where it does not, or not alone."""
    found = list(_list_plugins(root / "proc"))
    if len(found) != 1 or not _find_flags(found[0][1]):
        return None
    ((folder, words),) = found
    return RunningPlugin(folder / "root", words[_find_flags(words) :], _read_variables(folder / "environ"))


def _list_plugins(proc: Path) -> Iterator[tuple[Path, Sequence[str]]]:
    """Give folder and command line of every device plugin for NVIDIA cards."""
    try:
        folders = sorted((each for each in proc.iterdir() if each.name.isdecimal()), key=lambda each: int(each.name))
    except OSError:
        return
    for folder in folders:
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        except OSError:
            continue
        if _find_flags(words) or Path(words[0]).name in _FOREIGN_PLUGINS:
            yield folder, words


def _find_flags(words: Sequence[str]) -> int:
    """Tell where the flags of ``gpuloom device-plugin`` begin in a command line, 0 when it is another one."""
    for at, word in enumerate(words[:2]):
        if Path(word).name == "gpuloom" and words[at + 1 : at + 2] == ["device-plugin"]:
            return at + 2
    return 0


def _read_variables(path: Path) -> Mapping[str, str] | None:
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_ENVIRONMENT_BYTES)
    except OSError:
        return None
    pairs = (os.fsdecode(each).partition("=") for each in text.split(b"\0"))
    return {name: value for name, _, value in pairs if name}
