"""What all workers of one test run need and one of them makes: the first that asks; the others wait for it."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


class NotMadeError(Exception):
    """The worker whose turn it was could not make it; the message is that of its error."""


def find_shared(directories: pytest.TempPathFactory) -> Path:
    """Return the folder that all workers of this run have in common; without workers it is the run's own."""
    own = directories.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def make_once(directory: Path, make: Callable[[Path], None]) -> Path:
    """Return `directory`, which `make` filled once in this run. Raise NotMadeError, each time, where that failed."""
    with directory.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        failure = directory.with_suffix(".failure")
        if not directory.exists() and not failure.exists():
            unfinished = directory.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            try:
                make(unfinished)
            except Exception as error:
                failure.write_text(str(error))
                raise NotMadeError(str(error)) from error
            unfinished.rename(directory)
    if failure.exists():
        raise NotMadeError(failure.read_text())
    return directory
