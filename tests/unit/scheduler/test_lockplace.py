"""What is known of one node in the lock queue."""

import gc

import pytest

from gpuloom.scheduler.lockplace import LockPlace, LockTicket
from gpuloom.wire.objects import Node, ObjectMeta

TICKET = LockTicket("n1", "ns", "p", "uid", lambda: "")


def node(version: str, lock: str = "") -> Node:
    annotations = {"hami.io/mutex.lock": lock} if lock else {}
    return Node(metadata=ObjectMeta(name="n1", resource_version=version, annotations=annotations))


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


def test_a_place_is_two_objects_for_the_collector_to_look_at_while_nobody_waits() -> None:
    """Itself and its queue: there is a place for every node."""
    before = len(gc.get_objects())
    places = [LockPlace() for _ in range(100)]
    for place in places:
        place.apply(node("1"))
    assert len(gc.get_objects()) - before < 2.5 * len(places)


def test_a_lock_is_ours_only_with_the_value_and_for_the_pod_that_we_wrote() -> None:
    """binding 3 re-entrance."""
    place = LockPlace(node=node("1", "v"))
    assert not place.is_ours(TICKET)
    place.note_ours(TICKET, "v")
    assert place.is_ours(TICKET)
    assert not place.is_ours(LockTicket("n1", "ns", "p", "another", lambda: ""))
    place.apply(node("2", "w"))
    assert not place.is_ours(TICKET)
