"""A node's own branch in the machine's cgroup hierarchies (version 1 or hybrid)."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Self

HIERARCHIES = Path("/sys/fs/cgroup")
POLL_S = 0.05


def is_supported() -> bool:
    """Say whether the machine has hierarchies of version 1; a machine with version 2 alone is not supported."""
    return (HIERARCHIES / "memory").is_dir()


class CgroupBranch:
    """The cgroup `/NAME` in every hierarchy, as a context manager; removed with all below it at the end."""

    def __init__(self, name: str):
        self.name = name
        self._roots = [hierarchy / name for hierarchy in HIERARCHIES.iterdir() if hierarchy.is_dir()]

    def __enter__(self) -> Self:
        for root in self._roots:
            root.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        deadline_s = time.monotonic() + 10
        while remaining := [root for root in self._roots if not _remove(root)]:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"cgroups still hold processes 10 s after their node ended: {remaining}")
            time.sleep(POLL_S)


def _remove(root: Path) -> bool:
    """Remove a branch from its leaves on; say whether it is gone. A cgroup with processes stays."""
    if not root.exists():
        return True
    for directory in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
        with suppress(OSError):
            directory.rmdir()
    with suppress(OSError):
        root.rmdir()
    return not root.exists()
