"""What is known of one node in the lock queue."""

import asyncio
import gc

import pytest

from gpuloom.scheduler.bind.nodelock.queue import LockQueue, LockTicket
from gpuloom.wire.objects import Node, ObjectMeta

TICKET = LockTicket("n1", "ns", "p", "uid", lambda: "")


def node(version: str, lock: str = "") -> Node:
    annotations = {"hami.io/mutex.lock": lock} if lock else {}
    return Node(metadata=ObjectMeta(name="n1", resource_version=version, annotations=annotations))


def count_events() -> int:
    return sum(isinstance(thing, asyncio.Event) for thing in gc.get_objects())


@pytest.mark.parametrize(("first", "second", "expected"), [("9", "10", "b"), ("10", "9", "a"), ("9", "9", "b")])
def test_the_later_version_counts_whatever_comes_last(first: str, second: str, expected: str) -> None:
    queue = LockQueue()
    queue.apply(node(first, "a"))
    queue.apply(node(second, "b"))
    assert queue.value == expected


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    queue = LockQueue()
    queue.apply(node("x", "a"))
    queue.apply(node("w", "b"))
    assert queue.value == "b"


async def test_news_wake_whoever_waited_before_and_nobody_later() -> None:
    queue = LockQueue()
    before = queue.news
    queue.apply(node("1"))
    assert (before.is_set(), queue.news.is_set()) == (True, False)


def test_nothing_is_made_for_waiting_where_nobody_waits() -> None:
    """There is a queue for every node, and whatever is made with each change the collector has to look at."""
    before = count_events()
    queue = LockQueue()
    queue.apply(node("1"))
    assert count_events() == before


def test_a_lock_is_ours_only_with_the_value_and_for_the_pod_that_we_wrote() -> None:
    """binding 3 re-entrance."""
    queue = LockQueue(node=node("1", "v"))
    assert not queue.is_ours(TICKET)
    queue.note_ours(TICKET, "v")
    assert queue.is_ours(TICKET)
    assert not queue.is_ours(LockTicket("n1", "ns", "p", "another", lambda: ""))
    queue.apply(node("2", "w"))
    assert not queue.is_ours(TICKET)
