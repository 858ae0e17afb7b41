"""Which errors make a card sick (device plugin 7)."""

import pytest
from structlog.testing import capture_logs

from gpuloom.node.health import APPLICATION_XIDS, HealthBook, HealthSettings, HealthTarget, parse_health
from gpuloom.node.nvml import Coverage, XidEvent

CARDS = ("GPU-a", "GPU-b")
TARGETS = tuple(HealthTarget(uuid, uuid) for uuid in CARDS)
INSTANCES = (HealthTarget("MIG-1", "GPU-a", (1, 0)), HealthTarget("MIG-2", "GPU-a", (2, 0)), TARGETS[1])


def sick_after(event, targets=TARGETS):
    book = HealthBook(HealthSettings())
    book.note_event(event, targets, 0)
    return tuple(book.sick)


def test_an_error_makes_its_card_sick():
    assert sick_after(XidEvent("GPU-a", 79)) == ("GPU-a",)


@pytest.mark.parametrize("xid", sorted(APPLICATION_XIDS))
def test_an_error_of_an_application_makes_no_card_sick(xid):
    assert sick_after(XidEvent("GPU-a", xid)) == ()


def test_an_error_that_an_application_makes_again_and_again_is_told_once_a_minute():
    """Whoever has a share can make them."""
    book = HealthBook(HealthSettings())
    with capture_logs() as lines:
        for now_s in (0, 1, 59, 60, 61):
            book.note_event(XidEvent("GPU-a", 31), TARGETS, now_s)
            book.note_event(XidEvent("GPU-b", 31), TARGETS, now_s)
    told = [line["uuid"] for line in lines]
    assert told == ["GPU-a", "GPU-b", "GPU-a", "GPU-b"]


def test_an_error_of_a_card_that_cannot_be_told_makes_all_sick():
    assert sick_after(XidEvent(None, 79)) == CARDS


@pytest.mark.parametrize(
    ("event", "sick"),
    [
        (XidEvent("GPU-a", 79, (2, 0)), ("MIG-2",)),
        (XidEvent("GPU-a", 79, (2, 1)), ()),
        (XidEvent("GPU-a", 79), ("MIG-1", "MIG-2")),
        (XidEvent("GPU-b", 79, (2, 0)), ("GPU-b",)),
        (XidEvent(None, 79), ("MIG-1", "MIG-2", "GPU-b")),
    ],
    ids=["its ids", "other ids", "the whole card", "an undivided card", "no card told"],
)
def test_an_error_of_an_instance_makes_sick_what_has_its_ids(event, sick):
    assert sick_after(event, INSTANCES) == sick


def test_an_error_of_an_unknown_card_is_nothing():
    assert sick_after(XidEvent("GPU-z", 79)) == ()


@pytest.mark.parametrize(
    ("disabled", "enabled", "fatal", "harmless"),
    [
        ("", "", (48, 79), (13, 31, 43, 45, 68, 109)),
        ("48", "", (79,), (13, 48)),
        (" 48 , 79", "", (74,), (48, 79)),
        ("", "13", (13, 79), (31,)),
        ("48", "48", (48,), (13,)),
        ("", "all", (13, 79), ()),
        ("all", "", (), (13, 79)),
        ("xids", "", (), (13, 79)),
        ("all", "48", (48,), (79,)),
        ("XIDS", "ALL", (13, 79), ()),
        ("few,48", "", (79,), (48,)),
    ],
)
def test_lists_say_which_errors_count(disabled, enabled, fatal, harmless):
    settings = parse_health(disabled, enabled)
    assert [xid for xid in (*fatal, *harmless) if settings.is_fatal(xid)] == [*fatal]


@pytest.mark.parametrize(
    ("disabled", "enabled", "is_watched"), [("all", "", False), ("all", "48", True), ("1", "", True)]
)
def test_nothing_is_watched_where_nothing_counts(disabled, enabled, is_watched):
    assert parse_health(disabled, enabled).is_watched is is_watched


def test_an_item_that_is_no_number_is_logged():
    with capture_logs() as logs:
        parse_health("few,48", "")
    assert [entry["item"] for entry in logs] == ["few"]


def test_a_card_that_cannot_be_watched_is_sick():
    book = HealthBook(HealthSettings())
    book.note_coverage({"GPU-a": Coverage.FAILED, "GPU-b": Coverage.WATCHED}, 0)
    assert [*book.sick] == ["GPU-a"]


def test_a_card_too_old_to_be_watched_is_well_and_named():
    book = HealthBook(HealthSettings())
    with capture_logs() as logs:
        book.note_coverage({"GPU-a": Coverage.UNSUPPORTED}, 0)
    assert (tuple(book.sick), [entry["uuid"] for entry in logs]) == ((), ["GPU-a"])


def test_a_sick_card_is_tried_after_its_time():
    book = HealthBook(HealthSettings(recovery_s=300))
    book.note("GPU-a", "Xid 79", 0)
    assert (book.find_due(299, is_driver_well=True), book.find_due(300, is_driver_well=True)) == ((), ("GPU-a",))


def test_a_new_error_begins_the_time_anew():
    book = HealthBook(HealthSettings(recovery_s=300))
    book.note("GPU-a", "Xid 79", 0)
    book.note_event(XidEvent("GPU-a", 79), TARGETS, 200)
    assert book.find_due(400, is_driver_well=True) == ()


def test_an_error_that_does_not_count_does_not_begin_it_anew():
    book = HealthBook(HealthSettings(recovery_s=300))
    book.note("GPU-a", "Xid 79", 0)
    book.note_event(XidEvent("GPU-a", 13), TARGETS, 200)
    assert book.find_due(400, is_driver_well=True) == ("GPU-a",)


def test_without_recovery_a_card_is_never_tried():
    book = HealthBook(HealthSettings(recovery_s=0))
    book.note("GPU-a", "Xid 79", 0)
    assert book.find_due(1e9, is_driver_well=True) == ()


@pytest.mark.parametrize("recovery_s", [300, 0])
def test_a_card_that_is_sick_with_its_driver_is_tried_when_that_is_well(recovery_s):
    book = HealthBook(HealthSettings(recovery_s=recovery_s))
    book.note_driver(TARGETS[:1], "the driver fails", 0)
    assert (book.find_due(1, is_driver_well=False), book.find_due(1, is_driver_well=True)) == ((), ("GPU-a",))


def test_a_card_that_was_sick_before_its_driver_is_not_tried_sooner():
    book = HealthBook(HealthSettings())
    book.note("GPU-a", "Xid 79", 0)
    book.note_driver(TARGETS[:1], "the driver fails", 100)
    assert (book.find_due(399, is_driver_well=True), book.sick["GPU-a"].reason) == ((), "Xid 79")


def test_a_card_that_does_not_answer_when_it_is_tried_waits_anew():
    book = HealthBook(HealthSettings())
    book.note("GPU-a", "Xid 79", 0)
    book.postpone("GPU-a", "no answer", 300)
    assert (book.find_due(599, is_driver_well=True), book.find_due(600, is_driver_well=True)) == ((), ("GPU-a",))


def test_a_card_that_recovered_is_well():
    book = HealthBook(HealthSettings())
    book.note("GPU-a", "Xid 79", 0)
    book.recover("GPU-a")
    assert tuple(book.sick) == ()
