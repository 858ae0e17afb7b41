from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.wire.handshake import Handshake, decode_handshake, encode_deleted, encode_requesting

BERLIN = timezone(timedelta(hours=1))


@pytest.mark.parametrize("text", ["Requesting_2024.12.24 03:31:30", "Requesting_2024-12-24 03:31:30"])
def test_both_layouts_of_the_time_are_read_in_the_schedulers_zone(text):
    assert decode_handshake(text, BERLIN) == Handshake(True, datetime(2024, 12, 24, 3, 31, 30, tzinfo=BERLIN))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Reported 2024-01-23 04:30:04.434037031 +0000 UTC m=+1104711.777756895",
        "Deleted_2024.12.06 07:43:49",
    ],
)
def test_everything_without_requesting_is_not_asking(text):
    assert decode_handshake(text, UTC) == Handshake(False)


@pytest.mark.parametrize(
    "text",
    [
        "Requesting",
        "Requesting_",
        "Requesting_soon",
        "Requesting_2024-12.24 03:31:30",
        "Requesting_2024-13-24 03:31:30",
        "Requesting_2024-1-2 03:31:30",
        "Requesting_٢٠٢٤-12-24 03:31:30",
    ],
)
def test_requesting_without_a_readable_time_is_asking_since_unknown(text):
    assert decode_handshake(text, UTC) == Handshake(True, None)


def test_the_time_ends_at_a_second_underscore():
    assert decode_handshake("Requesting_2024-12-24 03:31:30_x", UTC).since is not None


def test_deleted_is_written_with_dashes():
    assert encode_deleted(datetime(2024, 12, 6, 7, 43, 49, tzinfo=UTC)) == "Deleted_2024-12-06 07:43:49"


@given(st.datetimes(min_value=datetime(1970, 1, 1)).map(lambda moment: moment.replace(microsecond=0, tzinfo=BERLIN)))  # noqa: DTZ001 - Hypothesis wants it naive
def test_requesting_round_trips(moment):
    assert decode_handshake(encode_requesting(moment), BERLIN) == Handshake(True, moment)
