"""What shows on a terminal that long work goes on: on stderr, and nowhere else."""

import sys
from collections.abc import Callable, Iterator
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


@contextmanager
def show_progress(text: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar with the time that is left; give what is told how much is done, and of how much."""
    if not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    from rich.console import Console  # noqa: PLC0415 - only where somebody sees it
    from rich.progress import (  # noqa: PLC0415 - as above
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(text, total=None)
        yield lambda done, parts: progress.update(task, completed=done, total=parts)
