"""What a pod's annotations say it was given."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.wire.strategies import containers

from gpuloom.engine.state.allocations import read_shares
from gpuloom.model.share import PodShares, Share
from gpuloom.vendors.catalog import load_default_profiles, make_catalog
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import ObjectMeta, Pod
from gpuloom.wire.shares import encode_shares

CATALOG = make_catalog(load_default_profiles())
KEYS = {word: CATALOG[word].write.allocated for word in ("NVIDIA", "MLU")}
SHARE = Share("GPU-a", "NVIDIA", 20000, 30)


def read(lists: Mapping[str, str]) -> PodShares:
    """Read the shares of a pod with these lists, by vendor."""
    annotations = {KEYS[word]: text for word, text in lists.items()}
    return read_shares(Pod(metadata=ObjectMeta(name="p", annotations=annotations)), CATALOG)


def test_a_pod_without_annotations_has_no_vendor() -> None:
    assert read({}) == {}


def test_an_absent_key_is_an_absent_vendor() -> None:
    assert read({"NVIDIA": "GPU-a,NVIDIA,20000,30:;"}) == {"NVIDIA": ((SHARE,), ())}


def test_one_broken_list_makes_the_whole_pod_undecodable() -> None:
    with pytest.raises(WireError):
        read({"NVIDIA": "GPU-a,NVIDIA,20000,30:;", "MLU": "a,b:"})


@given(st.dictionaries(st.sampled_from(sorted(KEYS)), containers))
def test_pods_round_trip_with_one_empty_entry_more(shares: Mapping[str, Sequence[Sequence[Share]]]) -> None:
    """B-05."""
    found = read({word: encode_shares(slots) for word, slots in shares.items()})
    assert found == {word: (*slots, ()) for word, slots in shares.items()}
