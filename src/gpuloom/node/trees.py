"""Delete directories that containers wrote to, whatever is in them (trust T-12).

Links are not followed and only folders are opened, also when somebody swaps them meanwhile. Folders in folders are
moved up to the first level, so that any depth can be deleted with a few open files.
"""

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path

MOST_AT_ONCE = 1_000_000
_BATCH = 1000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path) -> None:
    """Delete a directory with everything in it; a missing one is no error.

    Raises OSError, also when there is more than can be deleted at once, or when somebody keeps adding to it.
    """
    with ExitStack() as stack:
        try:
            top = stack.enter_context(_open(str(path)))
        except FileNotFoundError:
            return
        _empty(top)
    with suppress(FileNotFoundError):
        path.rmdir()


def _empty(top: int) -> None:
    deleted = 0
    while names := _list(top):
        for name in names:
            deleted += _remove(top, name)
        if deleted > MOST_AT_ONCE:
            raise OSError(errno.EBUSY, f"holds more than {MOST_AT_ONCE} files: the rest is for the next time")


def _remove(top: int, name: str) -> int:
    """Delete an entry of the first level, or move out what it holds; return how much that was."""
    if _remove_simple(top, name):
        return 1
    count = 1
    # An entry that is no longer a folder is met again.
    with suppress(NotADirectoryError, FileNotFoundError), _open(name, top) as folder:
        for inner in _list(folder):
            if not _remove_simple(folder, inner):
                os.rename(inner, str(uuid.uuid4()), src_dir_fd=folder, dst_dir_fd=top)
            count += 1
    return count


def _remove_simple(folder: int, name: str) -> bool:
    """Delete an entry and tell whether it is gone, by whomever; a folder that is not empty stays."""
    with suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=folder)
        except IsADirectoryError:
            return _remove_empty(folder, name)
    return True


def _remove_empty(folder: int, name: str) -> bool:
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.ENOTDIR}:
            raise
        return False
    return True


def _list(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, _BATCH)]


@contextmanager
def _open(name: str, inside: int | None = None) -> Iterator[int]:
    descriptor = os.open(name, _FOLDER, dir_fd=inside)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
