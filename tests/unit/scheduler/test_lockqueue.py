"""What is known of one node in the lock queue."""

import asyncio
import gc
from contextlib import ExitStack

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
    with queue.line_up(TICKET):
        before = queue.news_for(TICKET)
        queue.apply(node("1"))
        assert before.is_set()
        assert not queue.news_for(TICKET).is_set()


async def test_news_wake_the_first_alone_and_the_next_when_that_one_leaves() -> None:
    """Many wait for one node: if all of them looked, the first would go on much later."""
    queue, second = LockQueue(), LockTicket("n1", "ns", "q", "later", lambda: "")
    with ExitStack() as first_leaves, ExitStack() as second_leaves:
        first_leaves.enter_context(queue.line_up(TICKET))
        second_leaves.enter_context(queue.line_up(second))
        told = [queue.news_for(one) for one in (TICKET, second)]
        queue.apply(node("1"))
        assert [one.is_set() for one in told] == [True, False]
        first_leaves.close()
        assert told[1].is_set()
        assert queue.is_first(second)


async def test_nobody_is_woken_for_a_turn_that_another_has() -> None:
    queue, second = LockQueue(), LockTicket("n1", "ns", "q", "later", lambda: "")
    with ExitStack() as first_leaves:
        first_leaves.enter_context(queue.line_up(TICKET))
        with queue.line_up(second):
            queue.holder = TICKET
            first_leaves.close()
            assert not queue.waiting[second].is_set()


async def test_everybody_is_woken_to_see_whether_there_is_anything_to_wait_for() -> None:
    queue, second = LockQueue(), LockTicket("n1", "ns", "q", "later", lambda: "")
    with queue.line_up(TICKET), queue.line_up(second):
        queue.wake_all()
        assert all(news.is_set() for news in queue.waiting.values())


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


def test_a_queue_is_idle_only_while_nobody_waits_and_nobody_has_the_lock() -> None:
    queue = LockQueue()
    found = [queue.is_idle]
    with queue.line_up(TICKET):
        found.append(queue.is_idle)
        queue.holder = TICKET
    assert [*found, queue.is_idle] == [True, False, False]
