import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.wire.errors import WireError
from gpuloom.wire.gojson import decode_fields, decode_list_of, encode_json


class Thing(msgspec.Struct, frozen=True):
    name: str = ""
    count: int = 0


def test_keys_are_matched_in_any_letter_case():
    assert decode_fields('{"NAME":"a","Count":2}', Thing) == Thing("a", 2)


def test_unknown_keys_are_skipped_whatever_they_hold():
    assert decode_fields('{"name":"a","other":{"name":["b"]}}', Thing) == Thing("a")


def test_null_leaves_a_field_as_it_is():
    assert decode_fields('{"count":3,"Count":null,"name":null}', Thing) == Thing(count=3)


def test_of_two_spellings_the_last_one_counts():
    assert decode_fields('{"Count":1,"count":2,"COUNT":3}', Thing) == Thing(count=3)


@pytest.mark.parametrize("text", ["", "[]", "null", '"a"', '{"count":1.0}', '{"count":"1"}', "{} {}", "{,}"])
def test_anything_but_an_object_of_the_right_types_is_an_error(text):
    with pytest.raises(WireError):
        decode_fields(text, Thing)


def test_a_null_list_is_empty():
    assert decode_list_of(" null ", Thing) == []


def test_one_null_in_a_list_is_an_error():
    with pytest.raises(WireError):
        decode_list_of('[{"name":"a"},null]', Thing)


def test_html_and_line_separators_are_escaped_as_go_does():
    assert encode_json({"a": "<b>&\u2028\u2029"}) == r'{"a":"\u003cb\u003e\u0026\u2028\u2029"}'


def test_text_that_is_not_unicode_cannot_be_written():
    with pytest.raises(WireError):
        encode_json("\ud800")


@given(st.recursive(st.text(st.characters(codec="utf-8")) | st.integers(-(2**53), 2**53), st.lists, max_leaves=8))
def test_what_is_written_is_json(value):
    assert json.loads(encode_json(value)) == value
