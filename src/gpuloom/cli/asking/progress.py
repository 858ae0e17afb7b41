"""What shows on a terminal that long work goes on: on stderr, and nowhere else."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

_LONG_BYTES = 2**20
"""Files below are read in a moment."""


def show_work(text: str) -> AbstractContextManager[object]:
    """Show a spinner while something runs whose end nobody knows."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console  # noqa: PLC0415 - most commands end before it would be loaded

    return Console(stderr=True).status(text)


@contextmanager
def show_reading(name: str, file: BinaryIO) -> Iterator[BinaryIO]:
    """Show how much of a large file is read."""
    path = Path(name)
    size = path.stat().st_size if path.is_file() else 0
    if size < _LONG_BYTES or not sys.stderr.isatty():
        yield file
        return
    from rich.console import Console  # noqa: PLC0415 - most commands end before it would be loaded
    from rich.progress import wrap_file  # noqa: PLC0415 - most commands end before it would be loaded

    with wrap_file(file, size, description=name, console=Console(stderr=True), transient=True) as shown:
        yield shown
