"""docs/metrics.md tells of every metric of the code, with its labels and meaning, and of no other (scheduler 8.5)."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from local.scheduler.site import DEFAULTS, Site

from gpuloom.scheduler.metrics.process import list_series
from gpuloom.scheduler.parts import Parts

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
Row = tuple[str, str, str, str]
LABELS_OF_HISTOGRAMS = {"gpuloom_request_duration_seconds": ("verb",)}


def rows_of_page() -> list[Row]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [(name.strip("`"), kind, labels, meaning) for name, kind, labels, meaning in cells]


def rows_of_code(parts: Parts) -> Iterator[Row]:
    for series in list_series(parts):
        name = f"{series.name}_total" if series.kind == "counter" else series.name
        yield name, series.kind, ", ".join(series.labels), series.help
    for family in parts.latencies.registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield name, family.type, ", ".join(LABELS_OF_HISTOGRAMS.get(name, ())), family.documentation.rstrip(".")


@pytest.fixture
async def rows(empty: Site) -> list[Row]:
    process = await empty.start(dataclasses.replace(DEFAULTS, legacy_metrics=True))
    return list(rows_of_code(process.parts))


async def test_every_metric_of_the_code_stands_on_the_page_as_it_is(rows: list[Row]) -> None:
    """scheduler 8.5 one table."""
    assert [row for row in rows if row not in rows_of_page()] == []


async def test_no_metric_stands_on_the_page_that_the_code_does_not_have(rows: list[Row]) -> None:
    assert [row for row in rows_of_page() if row not in rows] == []


def test_no_metric_stands_on_the_page_twice() -> None:
    names = [name for name, *_ in rows_of_page()]
    assert len(names) == len(set(names)) > 40
