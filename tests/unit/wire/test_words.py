from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.wire.strategies import words

from gpuloom.wire.errors import WireError
from gpuloom.wire.words import (
    decode_bool,
    decode_int32,
    decode_list,
    decode_time,
    decode_unix_time,
    encode_bool,
    encode_list,
    encode_time,
    join_fields,
)

OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_go_spellings_of_true(text):
    assert decode_bool(text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_go_spellings_of_false(text):
    assert decode_bool(text) is False


@pytest.mark.parametrize("text", ["", "yes", "on", "tRUE", " true", "2"])
def test_nothing_else_is_a_boolean(text):
    with pytest.raises(WireError, match="not a boolean"):
        decode_bool(text)


@given(st.booleans())
def test_booleans_round_trip(value):
    assert decode_bool(encode_bool(value)) is value


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("+7", 7), ("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)])
def test_integers_have_32_bits(text, value):
    assert decode_int32(text) == value


@pytest.mark.parametrize("text", ["", "1.0", "0x1", "1_0", " 1", "٣", "2147483648", "-2147483649", "9" * 5000])
def test_nothing_else_is_an_integer(text):
    with pytest.raises(WireError, match="not a 32-bit integer"):
        decode_int32(text)


def test_a_list_is_trimmed_and_empty_items_are_ignored():
    assert decode_list(" GPU-a, ,GPU-b,, ") == ("GPU-a", "GPU-b")


def test_a_blank_list_is_empty():
    assert decode_list("  ") == ()


@given(st.lists(words.map(str.strip).filter(bool)).map(tuple))
def test_lists_round_trip(items):
    assert decode_list(encode_list(items)) == items


@pytest.mark.parametrize("field", ["a,b", "a:b", "a;b"])
def test_a_field_with_a_separator_cannot_be_written(field):
    with pytest.raises(WireError, match="cannot be written"):
        join_fields(["GPU-a", field])


@pytest.mark.parametrize(
    "text",
    ["", "2026-07-03", "2026-07-03 15:35:10Z", "2026-07-03T15:35:10", "2026-02-30T00:00:00Z", "2026-07-03T15:35:60Z"],
)
def test_nothing_else_is_a_time(text):
    with pytest.raises(WireError, match="not an RFC 3339 time"):
        decode_time(text)


@given(st.datetimes(timezones=OFFSETS).map(lambda moment: moment.replace(microsecond=0)))
def test_times_round_trip_with_their_offset(moment):
    assert decode_time(encode_time(moment)).isoformat() == moment.isoformat()


@pytest.mark.parametrize(
    ("fraction", "microseconds"), [("1", 100_000), ("12345", 123_450), ("123456789", 123_456), ("9" * 5000, 999_999)]
)
def test_of_a_fraction_microseconds_are_read(fraction: str, microseconds: int):
    assert decode_time(f"2026-07-03T15:35:10.{fraction}Z").microsecond == microseconds


def test_a_time_is_written_in_whole_seconds():
    assert encode_time(datetime(2025, 10, 20, 3, 7, 2, 999_999, tzinfo=UTC)) == "2025-10-20T03:07:02Z"


def test_utc_is_written_as_z():
    assert encode_time(datetime(2025, 10, 20, 3, 7, 2, tzinfo=UTC)) == "2025-10-20T03:07:02Z"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("1767225600", 1767225600), ("0", 0), ("9" * 18, 10**18 - 1)),
        *(("", None), ("-1", None), ("1.5", None), ("٣", None), ("9" * 19, None), ("9" * 5000, None)),
    ],
)
def test_unix_times_are_whole_seconds_of_a_sensible_length(text: str, seconds: int | None) -> None:
    assert decode_unix_time(text) == seconds
