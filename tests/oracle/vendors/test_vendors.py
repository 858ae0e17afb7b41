"""The engine decides for every family as plain Python does: webhook, registration, cards, reasons, scores, writing."""

import pytest

from gpuloom.engine.filtering import hooked_results
from oracle.vendors.agreement import find_difference_of
from oracle.vendors.cases import KINDS

FEW_SEEDS = range(5)
MANY_SEEDS = range(1_000, 1_040)
OTHER_SEEDS = range(2_000, 2_006)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_engine_and_oracle_agree_on_some_cases(kind: str) -> None:
    for seed in FEW_SEEDS:
        assert not (difference := find_difference_of(kind, seed)), f"{kind}, seed {seed}\n{difference}"


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_engine_and_oracle_agree_on_many_cases(kind: str) -> None:
    for seed in MANY_SEEDS:
        assert not (difference := find_difference_of(kind, seed)), f"{kind}, seed {seed}\n{difference}"


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_they_agree_where_the_engine_looks_at_one_node_at_a_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooked_results, "MOST_RANKED", 1)
    for seed in OTHER_SEEDS:
        assert not (difference := find_difference_of(kind, seed)), f"{kind}, seed {seed}\n{difference}"
