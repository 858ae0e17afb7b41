"""The file that says that a card is being divided: HAMi's monitor leaves the driver alone while it exists."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuloom.node.errors import CardReadError


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Keep the file inside the block. Raises CardReadError when it cannot be made."""
    with _explaining(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Others may make links in /tmp, and a file in another place could mean something to another program.
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def remove_stale(path: Path) -> None:
    """Remove the file of a process that did not end well.

    Raises CardReadError.
    """
    with _explaining(path):
        path.unlink(missing_ok=True)


@contextmanager
def _explaining(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CardReadError(
            f"no card can be divided without the lock file {path}: {error.strerror}; let this process write there"
        ) from error
