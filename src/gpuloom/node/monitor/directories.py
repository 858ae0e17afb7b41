"""The directories that containers share with the node: ``<hook path>/containers/<pod UID>_<container>``.

Their content belongs to containers: reading one is bounded, and links are not followed.
"""

import asyncio
import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gpuloom.node.monitor.errors import RegionError
from gpuloom.node.response import LOCKS_MARK
from gpuloom.node.trees import remove_tree

_MOST_ENTRIES = 1000
_MOST_FILES = 2


@dataclass(frozen=True, slots=True)
class ContainerDirectory:
    """One container's directory."""

    path: str
    pod_uid: str
    container: str

    @property
    def is_for_locks(self) -> bool:
        """Whether it is the container's second directory, for its locks."""
        return self.container.endswith(LOCKS_MARK)

    @property
    def key(self) -> tuple[str, str]:
        """UID of the pod and name of the container."""
        return self.pod_uid, self.container


def list_directories(root: Path) -> tuple[ContainerDirectory, ...]:
    """List the containers' directories and those for their locks, sorted; leave out everything else.

    A missing folder counts as empty. Raises OSError when the folder cannot be read.
    """
    try:
        with os.scandir(root) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return ()
    parted = ((name, *name.partition("_")) for name in names)
    return tuple(
        ContainerDirectory(f"{root}/{name}", pod_uid, container)
        for name, pod_uid, _, container in parted
        if pod_uid and container
    )


def find_region_file(directory: ContainerDirectory) -> str | None:
    """Return the path of a container's region, None while its program has not made one.

    Raises RegionError when the directory cannot be read, or holds more than one container puts there.
    """
    try:
        descriptor = os.open(directory.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with os.scandir(descriptor) as entries:
                names = [entry.name for entry in islice(entries, _MOST_ENTRIES + 1)]
        finally:
            os.close(descriptor)
    except OSError as error:
        raise RegionError(f"cannot be read: {error.strerror}") from error
    caches = [name for name in names if name.endswith(".cache")]
    libraries = [name for name in names if name.startswith("libvgpu.so")]
    if len(names) > _MOST_ENTRIES or len(caches) > 1 or len(caches) + len(libraries) > _MOST_FILES:
        raise RegionError("holds more files than one container leaves there")
    return f"{directory.path}/{caches[0]}" if caches else None


def read_age_s(directory: ContainerDirectory, now_s: float) -> float:
    """Return how long ago the directory was changed; a container may set a time to come, but not that of the entry.

    Raises OSError.
    """
    status = os.lstat(directory.path)
    return now_s - min(status.st_mtime, status.st_ctime)


async def remove_directory(directory: ContainerDirectory) -> None:
    """Delete a directory with everything in it; a missing one is no error.

    Raises OSError.
    """
    # On a thread, since a container may have left very many files.
    await asyncio.to_thread(remove_tree, Path(directory.path))
