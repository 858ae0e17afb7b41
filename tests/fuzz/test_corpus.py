"""Every decoder that meets other people's bytes takes its corpus, and changed seeds, as it declares, in time.

The corpus holds what reached something new under `make fuzz`, and what was found. Trust T-02, T-05, T-06, T-11.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from fuzz.catalogue import TARGETS
from fuzz.limits import CostlyError, check
from fuzz.mutation import LONGEST_BYTES, mutate
from fuzz.target import Target
from structlog.testing import capture_logs

CORPUS = Path(__file__).parent / "corpus"
MOST_BYTES = 2**20
FEW, MANY = 15, 150
FORMS = ("text", "json", "yaml", "bytes")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep log lines back: there are thousands."""
    with capture_logs():
        yield


def list_corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())] if (CORPUS / name).is_dir() else []


@pytest.mark.parametrize("target", TARGETS, ids=lambda one: one.name)
def test_the_corpus_and_the_seeds_do_no_harm(target: Target) -> None:
    inputs = [*dict.fromkeys(itertools.islice(target.seeds(), 30)), *list_corpus(target.name)]
    assert inputs
    for data in inputs:
        check(target, data)


@pytest.mark.parametrize("target", TARGETS, ids=lambda one: one.name)
def test_changed_seeds_do_no_harm(target: Target) -> None:
    # The same ones in every run: what is new is found by make fuzz.
    chance, seeds = Random(target.name), list(target.seeds())
    for _ in range(FEW if target.us_per_byte >= 100 else MANY):
        check(target, mutate(target.form, chance.choice(seeds), chance, seeds))


def test_the_corpus_is_small_and_each_part_belongs_to_a_target() -> None:
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    assert {path.parent.name for path in files} <= {target.name for target in TARGETS}


def test_no_target_is_there_twice() -> None:
    names = [target.name for target in TARGETS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("form", FORMS)
def test_changed_input_follows_from_its_chance_and_is_not_too_long(form: str) -> None:
    data = b'{"a": ["x,y:z;", 1, {"b": "[{\\"c\\":1}]"}], "d": "e"}'
    first, second = ([mutate(form, data, Random(number), [data]) for number in range(200)] for _ in range(2))  # type: ignore[arg-type]
    assert first == second
    assert max(map(len, first)) <= LONGEST_BYTES
    assert len(set(first)) > 50


def make_target(read: object, us_per_byte: float = 3.0) -> Target:
    return Target("made-up", read, "text", lambda: [b"a"], us_per_byte)  # type: ignore[arg-type]


def test_what_a_target_does_not_declare_is_a_finding() -> None:
    with pytest.raises(ZeroDivisionError):
        check(make_target(lambda data: 1 // (len(data) - 3)), b"abc")


def test_time_that_grows_faster_than_the_input_is_a_finding() -> None:
    now = itertools.accumulate(itertools.cycle((0.0, 0.6)))
    with pytest.raises(CostlyError, match=r"made-up: 10 bytes took 0\.60 s, 0\.30 s are allowed"):
        check(make_target(lambda _data: None), b"0123456789", lambda: next(now))


def test_one_slow_moment_is_no_finding() -> None:
    times = iter((0.0, 5.0, 5.0, 5.1, 5.1, 5.2, 5.2, 5.3))
    check(make_target(lambda _data: None), b"a", lambda: next(times))


def test_memory_that_grows_faster_than_the_input_is_a_finding() -> None:
    peaks = iter((2**30, 2**30 + 65 * 2**20))
    with pytest.raises(CostlyError, match=r"made-up: 1 bytes took 65 MiB of memory"):
        check(make_target(lambda _data: None), b"a", read_peak=lambda: next(peaks))
