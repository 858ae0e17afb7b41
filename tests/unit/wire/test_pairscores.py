import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.wire.strategies import texts, uuids

from gpuloom.wire.errors import WireError
from gpuloom.wire.pairscores import decode_pair_scores, encode_pair_scores

TEXT = '[{"uuid":"GPU-0","score":{"GPU-1":50,"GPU-2":20,"GPU-3":20}}]'


def test_scores_are_read_by_card_and_peer():
    assert decode_pair_scores(TEXT) == {"GPU-0": {"GPU-1": 50, "GPU-2": 20, "GPU-3": 20}}


def test_scores_are_written_as_hami_does_with_peers_in_order():
    assert encode_pair_scores({"GPU-0": {"GPU-3": 20, "GPU-1": 50, "GPU-2": 20}}) == TEXT


def test_negative_scores_are_legal():
    assert decode_pair_scores('[{"uuid":"a","score":{"b":-18}}]') == {"a": {"b": -18}}


def test_peers_keep_their_letter_case():
    assert decode_pair_scores('[{"UUID":"a","Score":{"GPU-B":1}}]') == {"a": {"GPU-B": 1}}


@pytest.mark.parametrize("text", ["[]", "null"])
def test_no_entries_are_no_scores(text):
    assert decode_pair_scores(text) == {}


@pytest.mark.parametrize("text", ["", "{}", "x", "[1]", '[{"uuid":"a","score":{"b":1.5}}]', '[{"score":[]}]'])
def test_what_is_no_list_of_scores_is_an_error(text):
    with pytest.raises(WireError, match="pair score annotation is not a list of scores"):
        decode_pair_scores(text)


@given(st.dictionaries(uuids, st.dictionaries(texts, st.integers(-(2**63), 2**63 - 1), max_size=4), max_size=4))
def test_scores_round_trip(scores):
    assert decode_pair_scores(encode_pair_scores(scores)) == scores
