from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.wire.strategies import words

from gpuloom.wire.errors import WireError
from gpuloom.wire.lock import NodeLock, decode_lock, encode_lock

MOMENT = datetime(2025, 10, 20, 3, 7, 2, tzinfo=UTC)
TEXT = "2025-10-20T03:07:02Z,jingyu-test,gputest-6c77bb77f8-gvtzc"
LOCK = NodeLock(MOMENT, "jingyu-test", "gputest-6c77bb77f8-gvtzc")


def test_a_lock_names_time_namespace_and_pod():
    assert decode_lock(TEXT) == LOCK


def test_a_lock_is_written_as_hami_does():
    assert encode_lock(LOCK) == TEXT


def test_the_old_form_has_a_time_only():
    assert decode_lock("2026-07-03T15:35:10+08:00") == NodeLock(
        datetime(2026, 7, 3, 15, 35, 10, tzinfo=timezone(timedelta(hours=8)))
    )


def test_a_lock_without_a_pod_is_written_in_the_old_form():
    assert encode_lock(NodeLock(MOMENT)) == "2025-10-20T03:07:02Z"


def test_a_lock_is_held_by_the_pod_it_names():
    assert LOCK.is_held_by("jingyu-test", "gputest-6c77bb77f8-gvtzc")


@pytest.mark.parametrize(("namespace", "name"), [("test", "gputest-6c77bb77f8-gvtzc"), ("jingyu-test", "gputest")])
def test_a_lock_is_not_held_by_another_pod(namespace, name):
    assert not LOCK.is_held_by(namespace, name)


def test_the_old_form_is_held_by_nobody():
    assert not NodeLock(MOMENT).is_held_by("", "")


@pytest.mark.parametrize(("text", "parts"), [("a,b", 2), ("2025-10-20T03:07:02Z,a,b,c", 4), (",,,", 4)])
def test_another_number_of_parts_is_malformed(text, parts):
    with pytest.raises(WireError) as caught:
        decode_lock(text)
    assert str(caught.value) == f"malformed lock annotation: expected 3 parts, got {parts} from {text}"


@pytest.mark.parametrize("text", ["", "yesterday", "yesterday,ns,pod", "2025-10-20 03:07:02,ns,pod"])
def test_a_lock_without_a_time_is_an_error(text):
    with pytest.raises(WireError, match="not an RFC 3339 time"):
        decode_lock(text)


@given(
    st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(microsecond=0)), words, words.filter(bool)
)
def test_locks_round_trip(moment, namespace, name):
    lock = NodeLock(moment, namespace, name)
    assert decode_lock(encode_lock(lock)) == lock
