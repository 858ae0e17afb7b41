"""How every list is asked for and shown: chosen, sorted, and, with ``--watch``, followed."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from gpuloom.cli.asking.flags import ListFlags, OutputFlags
from gpuloom.cli.asking.printing import Event, ListPrinter, Table, print_list
from gpuloom.cli.asking.reader import Reader
from gpuloom.cli.asking.sorting import sort_items
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.client.served import ServedReader

_T = TypeVar("_T")
_INTERVAL_S = 2.0
"""Between two questions of ``--watch``."""


async def show_list(
    reader: Reader,
    read: Callable[[], Awaitable[Sequence[_T]]],
    table: Table[_T],
    listing: ListFlags,
    form: OutputFlags,
) -> None:
    """Ask for a list and print it; with ``--watch`` go on until somebody ends it.

    Raises CommandError or AskingError.
    """
    check_listing(listing)
    if not listing.watch:
        print_list(sort_items(await read(), listing.sort_by), table, form)
        return
    if not isinstance(reader, ServedReader):
        raise CommandError("--watch asks the scheduler again and again, and it does not answer", ExitCode.UNKNOWN)
    await follow(read, table, listing, form, lambda: asyncio.sleep(_INTERVAL_S))


def check_listing(listing: ListFlags, name: str = "") -> None:
    """Refuse flags that mean nothing together; ``name`` is that of one item, where one is asked for.

    Raises CommandError.
    """
    if listing.output_watch_events and not listing.watch:
        raise CommandError("--output-watch-events tells events of --watch: give that too", ExitCode.USAGE)
    if name and (listing.watch or listing.sort_by):
        raise CommandError(f"--watch and --sort-by are for lists: leave {name} out", ExitCode.USAGE)


async def follow(
    read: Callable[[], Awaitable[Sequence[_T]]],
    table: Table[_T],
    listing: ListFlags,
    form: OutputFlags,
    pause: Callable[[], Awaitable[None]],
) -> None:
    """Print what there is, then what is new, gone or looks different; ages alone are no change."""
    printer = ListPrinter(table, form, has_events=listing.output_watch_events)
    known: dict[str, _T] = {}
    while True:
        items = sort_items(await read(), listing.sort_by)
        found = {table.key(item): item for item in items}
        printer.print(list(_compare(known, found, printer.show)))
        sys.stdout.flush()
        known = found
        await pause()


def _compare(
    known: Mapping[str, _T], found: Mapping[str, _T], show: Callable[[_T], object]
) -> Iterator[tuple[Event, _T]]:
    for key, item in found.items():
        if key not in known:
            yield "ADDED", item
        elif show(known[key]) != show(item):
            yield "MODIFIED", item
    yield from (("DELETED", item) for key, item in known.items() if key not in found)
