"""Looks for what a part of the harness could have left behind on the machine."""

from pathlib import Path


def find_processes(directory: Path) -> list[str]:
    """Return the command lines of processes that were started with a path below `directory`."""
    return sorted(line for line in map(_read_command, Path("/proc").glob("[0-9]*")) if str(directory) in line)


def find_mounts(directory: Path) -> list[str]:
    """Return this machine's mounts that name a path below `directory`."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(directory) in line]


def _read_command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
