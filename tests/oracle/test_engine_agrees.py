"""The engine behind the live flows answers every generated recording as the oracle does."""

import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from harness.slow import first_of
from oracle.agreement import find_difference
from oracle.cases import Case, case_from_seed
from oracle.replay import Replay
from oracle.strategies import cases

FEW_SEEDS = 300
MANY_SEEDS = range(1_000, 20_000)
SHARDS = 19


@pytest.mark.parametrize("first", first_of(range(0, FEW_SEEDS, 25)))
def test_engine_and_oracle_agree_on_some_cases(first: int) -> None:
    for seed in range(first, first + 25):
        assert not (difference := find_difference(case_from_seed(seed).lines, Replay())), f"seed {seed}\n{difference}"


@pytest.mark.parametrize("first", first_of(range(0, FEW_SEEDS, 25)))
def test_engine_and_oracle_agree_where_kube_scheduler_chooses(first: int) -> None:
    """binding 10."""
    for seed in range(first, first + 25):
        lines = list(choose_elsewhere(case_from_seed(seed), Random(seed)))
        assert not (difference := find_difference(lines, Replay())), f"seed {seed}\n{difference}"


def choose_elsewhere(case: Case, chance: Random) -> Iterator[dict[str, Any]]:
    """Let kube-scheduler ask for scores after each Filter, and Bind move the reservation to any node."""
    for line in case.lines:
        if line["type"] == "SETTINGS":
            yield {**line, "flags": {**line.get("flags", {}), "node-choice": "scheduler"}}
            continue
        yield line
        names = line["args"].get("NodeNames") if line["type"] == "FILTER" else None
        if names:
            yield {"type": "ADDED", "object": {"kind": "Pod", **line["args"]["Pod"]}}
            yield {"type": "PRIORITIZE", "id": f"{line.get('id')}-scores", "args": line["args"]}
            yield {"type": "MOVED", "uid": line["args"]["Pod"]["metadata"]["uid"], "node": chance.choice(names)}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_engine_and_oracle_agree_on_many_cases(shard: int) -> None:
    for seed in MANY_SEEDS[shard::SHARDS]:
        assert not (difference := find_difference(case_from_seed(seed).lines, Replay())), f"seed {seed}\n{difference}"


@pytest.mark.long
@pytest.mark.timeout(600)
@settings(max_examples=int(os.environ.get("GPULOOM_AGREEMENT_EXAMPLES", "1000")))
@given(cases())
def test_engine_and_oracle_agree_on_drawn_cases(case: Case) -> None:
    assert not (difference := find_difference(case.lines, Replay())), difference
