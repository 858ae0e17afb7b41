"""Answers as tables, JSON or YAML. Colours only on a terminal, and not where NO_COLOR is set."""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec

from gpuloom.cli.asking.flags import OutputFlags

_T = TypeVar("_T")
_GAP = "   "
_NOTHING = "<none>"

Tone = Literal["", "good", "bad", "warn", "dim", "bold"]
_CODES = {"good": "32", "bad": "31", "warn": "33", "dim": "2", "bold": "1"}


@dataclass(frozen=True, slots=True)
class Column(Generic[_T]):
    """A heading and what stands below it; ``is_wide`` columns are in the wide table only."""

    heading: str
    text: Callable[[_T], str]
    is_wide: bool = False
    tone: Callable[[_T], Tone] | None = None


@dataclass(frozen=True, slots=True)
class Table(Generic[_T]):
    """How a kind of item is listed; ``name`` is what ``-o name`` prints, ``empty`` what is said of an empty list."""

    columns: Sequence[Column[_T]]
    name: Callable[[_T], str]
    empty: str


def print_list(items: Sequence[_T], table: Table[_T], form: OutputFlags) -> None:
    """Print a list in the form that is wanted."""
    match form.output:
        case "json" | "yaml":
            print_value({"items": items}, form)
        case "name":
            write_lines(table.name(item) for item in items)
        case _:
            _print_table(items, table, form)


def print_value(value: Any, form: OutputFlags) -> None:
    """Print one value as JSON, or as YAML if that is wanted."""
    if form.output == "yaml":
        write_lines([msgspec.yaml.encode(msgspec.to_builtins(value)).decode().rstrip("\n")])
    else:
        write_lines([msgspec.json.format(msgspec.json.encode(value), indent=2).decode()])


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout."""
    sys.stdout.writelines(f"{line}\n" for line in lines)


def has_colours() -> bool:
    """Tell whether whoever reads stdout sees colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, tone: Tone) -> str:
    """Colour a text where that is seen."""
    return f"\x1b[{_CODES[tone]}m{text}\x1b[0m" if tone and has_colours() else text


def _print_table(items: Sequence[_T], table: Table[_T], form: OutputFlags) -> None:
    if not items:
        sys.stderr.write(f"{table.empty}\n")
        return
    columns = [column for column in table.columns if form.output == "wide" or not column.is_wide]
    rows = [[column.text(item) or _NOTHING for column in columns] for item in items]
    headings = [] if form.no_headers else [[column.heading for column in columns]]
    widths = [max(len(row[at]) for row in (*headings, *rows)) for at in range(len(columns))]
    write_lines(paint(_join(row, widths), "bold") for row in headings)
    for item, row in zip(items, rows, strict=True):
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        tones = [column.tone(item) if column.tone else "" for column in columns]
        write_lines([_GAP.join(map(paint, cells, tones)).rstrip()])


def _join(row: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
