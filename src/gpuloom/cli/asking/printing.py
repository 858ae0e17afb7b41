"""Answers as tables, JSON or YAML. Colours only on a terminal, and not where NO_COLOR is set."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar, get_args

import msgspec

from gpuloom.cli.asking.flags import OutputFlags
from gpuloom.cli.plain import plain

_T = TypeVar("_T")
_GAP = "   "
_NOTHING = "<none>"

Event = Literal["ADDED", "MODIFIED", "DELETED"]
_EVENT_WIDTH = max(map(len, get_args(Event)))
Tone = Literal["", "good", "bad", "warn", "dim", "bold"]
_CODES = {"good": "32", "bad": "31", "warn": "33", "dim": "2", "bold": "1"}
_COLOUR = re.compile(f"(\x1b\\[(?:0|{'|'.join(_CODES.values())})m)")
_OBEYED = re.compile(r"[\x7f-\x9f]")
"""What a terminal obeys and JSON leaves as it is."""


def _same(item: _T) -> _T:
    return item


@dataclass(frozen=True, slots=True)
class Column(Generic[_T]):
    """A heading and what stands below it; ``is_wide`` columns are in the wide table only, ``is_age`` ones grow."""

    heading: str
    text: Callable[[_T], str]
    is_wide: bool = False
    is_age: bool = False
    tone: Callable[[_T], Tone] | None = None


@dataclass(frozen=True, slots=True)
class Table(Generic[_T]):
    """How a kind of item is listed.

    name    what ``-o name`` prints
    empty   what is said of an empty list
    id      tells items apart, where their names do not
    steady  the item without what time alone changes: ages, and when something was measured
    """

    columns: Sequence[Column[_T]]
    name: Callable[[_T], str]
    empty: str
    id: Callable[[_T], str] | None = None
    steady: Callable[[_T], _T] = _same

    def key(self, item: _T) -> str:
        """Return what tells this item from the others."""
        return (self.id or self.name)(item)

    def of(self, selector: str = "", namespace: str = "") -> "Table[_T]":
        """Return the same, which says of an empty list what was chosen."""
        labels = f" with labels {selector}" if selector else ""
        place = f" in namespace {namespace}; -A is all namespaces" if namespace else ""
        return replace(self, empty=f"{self.empty.rstrip('.')}{labels}{place}.") if labels or place else self


def print_list(items: Sequence[_T], table: Table[_T], form: OutputFlags) -> None:
    """Print a list in the form that is wanted."""
    match form.output:
        case "json" | "yaml":
            print_value({"items": items}, form.output)
        case "name":
            write_lines(table.name(item) for item in items)
        case _ if items:
            ListPrinter(table, form).print([("ADDED", item) for item in items])
        case _:
            sys.stderr.write(f"{table.empty}\n")


class ListPrinter(Generic[_T]):
    """Prints items as they come, in columns that stay where they are; JSON and YAML a document for each."""

    def __init__(self, table: Table[_T], form: OutputFlags, *, has_events: bool = False) -> None:
        self._table = table
        self._form = form
        self._has_events = has_events
        self._columns = [column for column in table.columns if form.output == "wide" or not column.is_wide]
        self._widths: list[int] = []

    def print(self, items: Sequence[tuple[Event, _T]]) -> None:
        """Print these."""
        match self._form.output:
            case "json" | "yaml":
                self._print_documents(items)
            case "name":
                write_lines(self._table.name(item) for _, item in items)
            case _ if items:
                self._print_rows(items)

    def show(self, item: _T) -> object:
        """Return what is printed of an item, without what time alone changes."""
        match self._form.output:
            case "json" | "yaml":
                return self._table.steady(item)
            case "name":
                return self._table.name(item)
            case _:
                return [column.text(item) for column in self._columns if not column.is_age]

    def _print_documents(self, items: Sequence[tuple[Event, _T]]) -> None:
        for event, item in items:
            if self._form.output == "yaml":
                sys.stdout.write("---\n")
            print_value({"type": event, "object": item} if self._has_events else item, self._form.output)

    def _print_rows(self, items: Sequence[tuple[Event, _T]]) -> None:
        rows = [
            self._cells(event, [plain(column.text(item)) or _NOTHING for column in self._columns])
            for event, item in items
        ]
        headings = [] if self._widths or self._form.no_headers else [self._headings()]
        widths = [max(map(len, cells)) for cells in zip(*headings, *rows, strict=True)]
        self._widths = list(map(max, self._widths, widths)) if self._widths else widths
        write_lines(paint(_join(row, self._widths), "bold") for row in headings)
        for (_, item), row in zip(items, rows, strict=True):
            cells = [text.ljust(width) for text, width in zip(row, self._widths, strict=True)]
            write_lines([_GAP.join(map(paint, cells, self._tones(item))).rstrip()])

    def _headings(self) -> list[str]:
        return self._cells("EVENT", [column.heading for column in self._columns])

    def _cells(self, event: str, cells: list[str]) -> list[str]:
        return [event.ljust(_EVENT_WIDTH), *cells] if self._has_events else cells

    def _tones(self, item: _T) -> list[Tone]:
        tones: list[Tone] = [column.tone(item) if column.tone else "" for column in self._columns]
        return ["", *tones] if self._has_events else tones


def print_value(value: Any, output: str) -> None:
    """Print one value as JSON, or as YAML if that is wanted."""
    if output == "yaml":
        text = msgspec.yaml.encode(msgspec.to_builtins(value)).decode().rstrip("\n")
    else:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
        text = _OBEYED.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    sys.stdout.write(f"{text}\n")


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout; colours are those of :func:`paint`, and nothing else is obeyed by a terminal."""
    sys.stdout.writelines(f"{_write_plain(line)}\n" for line in lines)


def _write_plain(line: str) -> str:
    if line.isprintable() or not has_colours():
        return plain(line)
    pieces = _COLOUR.split(line)
    return "".join(piece if at % 2 else plain(piece) for at, piece in enumerate(pieces))


def has_colours() -> bool:
    """Tell whether whoever reads stdout sees colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, tone: Tone) -> str:
    """Colour a text where that is seen."""
    return f"\x1b[{_CODES[tone]}m{plain(text)}\x1b[0m" if tone and has_colours() else text


def _join(row: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
