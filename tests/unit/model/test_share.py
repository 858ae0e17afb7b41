"""Shares in the form that takes the least memory are the same shares."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.model.share import PodShares, Share, compact_shares

SHARES = st.builds(Share, st.sampled_from(["a", "b"]), st.just("NVIDIA"), st.integers(0, 9), st.integers(0, 9))
CONTAINERS = st.lists(st.lists(SHARES, max_size=2).map(tuple), max_size=3).map(tuple)


@given(st.dictionaries(st.sampled_from(["NVIDIA", "MLU"]), CONTAINERS))
def test_compact_shares_are_equal_to_those_given(shares) -> None:
    assert dict(compact_shares(shares)) == shares


QUESTIONS: dict[str, Callable[[PodShares], Any]] = {
    "items": lambda shares: sorted(shares.items()),
    "keys": lambda shares: sorted(shares.keys()),
    "values": lambda shares: sorted(shares.values()),
    "iteration": sorted,
    "length": len,
    "what is there": lambda shares: ("NVIDIA" in shares, shares.get("NVIDIA")),
    "what is not": lambda shares: ("DCU" in shares, shares.get("DCU"), shares.get("DCU", ())),
    "kind": lambda shares: isinstance(shares, Mapping),
    "equality": lambda shares: (shares == {"NVIDIA": ()}, shares == {}, shares == dict(shares)),
}


@pytest.mark.parametrize("question", QUESTIONS)
@given(shares=st.dictionaries(st.sampled_from(["NVIDIA", "MLU"]), st.just(())))
def test_compact_shares_answer_as_the_same_dict_does(question, shares) -> None:
    ask = QUESTIONS[question]
    assert ask(compact_shares(shares)) == ask(shares)


@given(st.dictionaries(st.sampled_from(["NVIDIA", "MLU"]), CONTAINERS))
def test_compacting_twice_changes_nothing(shares) -> None:
    once = compact_shares(shares)
    assert dict(compact_shares(once)) == dict(once)


def test_shares_of_another_vendor_are_not_there() -> None:
    with pytest.raises(KeyError):
        compact_shares({"NVIDIA": ()})["MLU"]


def test_the_usual_pod_takes_less_than_half_the_memory() -> None:
    shares = {"NVIDIA": ((Share("a", "NVIDIA", 1, 1),),)}
    as_given = sys.getsizeof(shares) + 2 * sys.getsizeof((1,))
    assert sys.getsizeof(compact_shares(shares)) < as_given / 2
