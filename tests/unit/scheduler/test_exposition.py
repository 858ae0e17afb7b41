"""Metrics are written a chunk at a time, so that calls are answered in between."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gpuloom.scheduler.metrics.exposition import CHUNK_SAMPLES, write_exposition
from gpuloom.scheduler.metrics.series import Samples, Series


async def write(samples: Samples) -> str:
    series = Series("shares", "Shares", ("card",), lambda: samples)
    chunks = [chunk async for chunk in write_exposition([series], CollectorRegistry())]
    return b"".join(chunks).decode()


async def test_all_samples_are_told_on_however_many_pages() -> None:
    samples = [((f"card-{number}",), float(number)) for number in range(2 * CHUNK_SAMPLES + 1)]
    (family,) = text_string_to_metric_families(await write(samples))
    assert [((sample.labels["card"],), sample.value) for sample in family.samples] == samples


@given(st.text(), st.floats(allow_nan=False))
async def test_any_label_and_value_are_read_back_as_they_were(label: str, value: float) -> None:
    (family,) = text_string_to_metric_families(await write([((label,), value)]))
    (sample,) = family.samples
    assert (sample.labels, sample.value) == ({"card": label}, value)


@pytest.mark.parametrize(
    ("kind", "labels"), [("counter", ()), ("counter", ("a", "b")), ("gauge", ()), ("gauge", ("a",))]
)
async def test_a_sample_reads_as_the_library_writes_it(kind: str, labels: tuple[str, ...]) -> None:
    family = (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)("shares", "Shares", labels=labels)
    family.add_metric(labels, 12345678.0)
    registry = CollectorRegistry()
    series = Series("shares", "Shares", labels, lambda: [(labels, 12345678.0)], kind)
    written = b"".join([chunk async for chunk in write_exposition([series], registry)])
    registry.collect = lambda: [family]  # type: ignore[method-assign]
    assert written == generate_latest(registry)


async def test_what_has_nothing_to_tell_is_left_out() -> None:
    (family,) = text_string_to_metric_families(await write([None, (("a",), 1.0), None]))
    assert [sample.labels for sample in family.samples] == [{"card": "a"}]


async def test_looking_at_very_much_that_has_nothing_to_tell_makes_pauses() -> None:
    looked_at, seen = 0, [0]

    def look() -> Iterator[None]:
        nonlocal looked_at
        for _ in range(10 * CHUNK_SAMPLES):
            looked_at += 1
            yield None

    async def watch() -> None:
        while True:
            seen.append(looked_at)
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    await write(look())
    watching.cancel()
    assert max(after - before for before, after in itertools.pairwise(seen)) <= CHUNK_SAMPLES
