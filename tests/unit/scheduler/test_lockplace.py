"""What is known of one node in the lock queue."""

import asyncio
import gc

import pytest

from gpuloom.scheduler.bind.nodelock.queue import LockPlace, LockTicket
from gpuloom.wire.objects import Node, ObjectMeta

TICKET = LockTicket("n1", "ns", "p", "uid", lambda: "")


def node(version: str, lock: str = "") -> Node:
    annotations = {"hami.io/mutex.lock": lock} if lock else {}
    return Node(metadata=ObjectMeta(name="n1", resource_version=version, annotations=annotations))


def count_events() -> int:
    return sum(isinstance(thing, asyncio.Event) for thing in gc.get_objects())


@pytest.mark.parametrize(("first", "second", "expected"), [("9", "10", "b"), ("10", "9", "a"), ("9", "9", "b")])
def test_the_later_version_counts_whatever_comes_last(first: str, second: str, expected: str) -> None:
    place = LockPlace()
    place.apply(node(first, "a"))
    place.apply(node(second, "b"))
    assert place.value == expected


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    place = LockPlace()
    place.apply(node("x", "a"))
    place.apply(node("w", "b"))
    assert place.value == "b"


async def test_news_wake_whoever_waited_before_and_nobody_later() -> None:
    place = LockPlace()
    before = place.news
    place.apply(node("1"))
    assert (before.is_set(), place.news.is_set()) == (True, False)


def test_nothing_is_made_for_waiting_where_nobody_waits() -> None:
    """There is a place for every node, and whatever is made with each change the collector has to look at."""
    before = count_events()
    place = LockPlace()
    place.apply(node("1"))
    assert count_events() == before


def test_a_lock_is_ours_only_with_the_value_and_for_the_pod_that_we_wrote() -> None:
    """binding 3 re-entrance."""
    place = LockPlace(node=node("1", "v"))
    assert not place.is_ours(TICKET)
    place.note_ours(TICKET, "v")
    assert place.is_ours(TICKET)
    assert not place.is_ours(LockTicket("n1", "ns", "p", "another", lambda: ""))
    place.apply(node("2", "w"))
    assert not place.is_ours(TICKET)
