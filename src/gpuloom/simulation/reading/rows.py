"""Rows of text from CSV and YAML files, each with its line."""

import csv
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from gpuloom.simulation.errors import SimulationError
from gpuloom.wire.device_config import YAML_FAILURES
from gpuloom.wire.yamldepth import refuse_deep

_UNPACKERS: Mapping[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".xz": lzma.decompress}


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its fields by column, and where it stands."""

    file: str
    line: int
    fields: dict[str, str]

    def fault(self, problem: str) -> SimulationError:
        """Return an error that names this place."""
        return SimulationError(f"{self.file}:{self.line}: {problem}")

    def text(self, column: str) -> str:
        """Return what stands in a column; it must not be empty."""
        if not (value := self.fields.get(column, "").strip()):
            raise self.fault(f"{column} is empty: give it a value")
        return value

    def number(self, column: str, least: int, most: int) -> int:
        """Return the whole number in a column."""
        value = self.text(column)
        try:
            # Data frames write whole numbers as 8.0 once a column has had a gap.
            number = int(value.removesuffix(".0")) if value.isascii() else None
        except ValueError:
            number = None
        if number is None or not least <= number <= most:
            raise self.fault(f"{column} is {value!r}: expected a whole number from {least} to {most}")
        return number


def read_rows(file: str, columns: tuple[str, ...]) -> list[Row]:
    """Read the rows of a file that has at least these columns.

    Raises SimulationError.
    """
    text = _read_text(file)
    kind = next((suffix for suffix in reversed(Path(file).suffixes) if suffix.lower() not in _UNPACKERS), "").lower()
    if kind not in {".csv", ".yaml", ".yml"}:
        raise SimulationError(
            f"{file}: expected a name that ends in .csv, .yaml or .yml, or in one of these and .gz or .xz"
        )
    try:
        rows = list(_read_csv(file, text, columns) if kind == ".csv" else _read_yaml(file, text, columns))
    except csv.Error as error:
        raise SimulationError(f"{file}: {error}: expected comma-separated values") from error
    if not rows:
        raise SimulationError(f"{file}:1: it has no rows: expected at least one with {', '.join(columns)}")
    return rows


def _read_text(file: str) -> str:
    path = Path(file)
    unpack = _UNPACKERS.get(path.suffix.lower(), bytes)
    try:
        data = unpack(path.read_bytes())
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        problem = getattr(error, "strerror", None) or error
        raise SimulationError(f"{file}: {problem}: expected a readable file") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SimulationError(f"{file}:{line}: expected text in UTF-8") from error


def _read_csv(file: str, text: str, columns: tuple[str, ...]) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    heading = [name.strip() for name in next(reader, [])]
    for column in columns:
        if column not in heading:
            raise SimulationError(f"{file}:1: column {column} is missing: expected {', '.join(columns)}")
    for values in reader:
        if values:
            row = Row(file, reader.line_num, dict(zip(heading, values, strict=False)))
            if len(values) != len(heading):
                raise row.fault(f"it has {len(values)} fields: expected {len(heading)}, as in the first line")
            yield row


def _read_yaml(file: str, text: str, columns: tuple[str, ...]) -> Iterator[Row]:
    expected = f"expected a list of items with {', '.join(columns)}"
    root = _compose(file, text)
    if root is None:
        return
    if not isinstance(root, yaml.SequenceNode):
        raise SimulationError(f"{file}:{_line_of(root)}: {expected}")
    for item in root.value:
        if not isinstance(item, yaml.MappingNode):
            raise SimulationError(f"{file}:{_line_of(item)}: {expected}")
        row = Row(file, _line_of(item), dict(_read_pairs(file, item)))
        for column in columns:
            if column not in row.fields:
                raise row.fault(f"{column} is missing: expected {', '.join(columns)}")
        yield row


def _compose(file: str, text: str) -> yaml.Node | None:
    """Return what a YAML file says, in nodes that know their lines."""
    try:
        refuse_deep(text)
        # The loader in C: Python's takes seconds for a few kilobytes of brackets.
        return yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SimulationError(f"{file}:{line}: {error.problem or 'it is no YAML'}: expected a list in YAML") from error
    except (yaml.YAMLError, *YAML_FAILURES) as error:
        raise SimulationError(f"{file}: {' '.join(str(error).split())}: expected a list in YAML") from error


def _read_pairs(file: str, item: yaml.MappingNode) -> Iterator[tuple[str, str]]:
    for key, value in item.value:
        if not isinstance(key, yaml.ScalarNode) or not isinstance(value, yaml.ScalarNode):
            raise SimulationError(f"{file}:{_line_of(key)}: expected a word and its value, as in cpu_milli: 4000")
        yield key.value, value.value


def _line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
