"""Shares in the form that takes the least memory are the same shares."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.model.share import Share, compact_shares

SHARES = st.builds(Share, st.sampled_from(["a", "b"]), st.just("NVIDIA"), st.integers(0, 9), st.integers(0, 9))
CONTAINERS = st.lists(st.lists(SHARES, max_size=2).map(tuple), max_size=3).map(tuple)


@given(st.dictionaries(st.sampled_from(["NVIDIA", "MLU"]), CONTAINERS))
def test_compact_shares_are_equal_to_those_given(shares) -> None:
    assert dict(compact_shares(shares)) == shares


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
