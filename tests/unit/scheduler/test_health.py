"""The health table (scheduler 8.2) with its fixes."""

from datetime import UTC, datetime

import pytest

from gpuloom.scheduler.nodes.health import HandshakeAction, HealthHistory, HealthResult, Observation, check_health
from gpuloom.vendors.profile import HealthRules

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
YOUNG = "Requesting_2026-01-01 11:59:01"
OLD = "Requesting_2026-01-01 11:59:00"
FRESH = HealthHistory()
COUNTED = HealthRules(kind="handshake", handshake="h", counted=True)
ASKED = HealthRules(kind="handshake", handshake="h")
NEVER_ASKED = ("", "Reported 2026-01-01 11:59:59 +0000 UTC", "Deleted_2026-01-01 11:00:00")


def judge(
    handshake: str = "",
    count: int = 0,
    history: HealthHistory = FRESH,
    *,
    register: str | None = "r",
    used: bool = True,
):
    return check_health(Observation(handshake, register, count, used), history, NOW, COUNTED)


@pytest.mark.parametrize("handshake", ["", YOUNG, OLD, "Requesting", "Requesting_soon", *NEVER_ASKED])
def test_cards_that_the_kubelet_offers_are_healthy(handshake: str) -> None:
    """scheduler 8.2 requesting, older, A > 0."""
    assert judge(handshake, count=8).healthy


@pytest.mark.parametrize("handshake", NEVER_ASKED)
def test_a_node_that_was_not_asked_is_asked(handshake: str) -> None:
    """scheduler 8.2 anything else."""
    assert judge(handshake, count=8).action is HandshakeAction.ASK


@pytest.mark.parametrize("handshake", [YOUNG, OLD, "Requesting", "Requesting_soon"])
def test_a_question_is_not_repeated(handshake: str) -> None:
    """scheduler 8.2 requesting, younger than 60 s."""
    assert judge(handshake, count=8).action is HandshakeAction.NOTHING


@pytest.mark.parametrize("handshake", ["", "Reported now", YOUNG, "Requesting", "Requesting_soon"])
def test_a_node_that_was_just_asked_is_healthy_before_the_kubelet_offers_anything(handshake: str) -> None:
    """scheduler 8.2 A = 0, R = 0; scheduler 8.2 requesting without a time; B-57."""
    assert judge(handshake).healthy


@pytest.mark.parametrize("old", [OLD, "Requesting_2025.12.24 03:31:30"])
def test_a_question_nobody_answers_for_a_minute_ends_health(old: str) -> None:
    """scheduler 8.2 requesting, older, A = 0; scheduler 8.3 handshake limit; B-46."""
    assert judge(old) == HealthResult(healthy=False, action=HandshakeAction.CLEAN, history=HealthHistory(0, "r"))


@pytest.mark.parametrize("handshake", ["", YOUNG, "Reported now"])
def test_an_offer_that_the_kubelet_takes_back_ends_health_at_once(handshake: str) -> None:
    """scheduler 8.2 A = 0, R > 0."""
    assert judge(handshake, history=HealthHistory(8)) == HealthResult(
        healthy=False, action=HandshakeAction.CLEAN, history=HealthHistory(0, "r")
    )


def test_cards_that_are_not_used_need_no_cleaning() -> None:
    assert judge(OLD, used=False).action is HandshakeAction.NOTHING


def test_a_node_whose_cards_were_not_used_is_healthy_once_it_is_asked_anew() -> None:
    """B-26: a node is remembered as down when it is cleaned up."""
    first = judge(OLD, used=False)
    assert (first.healthy, judge(YOUNG, history=first.history, used=False).healthy) == (False, True)


def test_what_the_kubelet_offers_is_remembered() -> None:
    """scheduler 8.2 A > 0, R not A."""
    assert judge(YOUNG, count=8).history == HealthHistory(8)


def test_a_node_that_went_down_stays_down_without_being_asked_again() -> None:
    down = HealthHistory(0, "r")
    assert judge("", history=down, used=False) == HealthResult(
        healthy=False, action=HandshakeAction.NOTHING, history=down
    )


def test_a_node_that_went_down_comes_back_with_the_kubelets_offer() -> None:
    assert judge("", count=8, history=HealthHistory(0, "r")) == HealthResult(
        healthy=True, action=HandshakeAction.ASK, history=HealthHistory(8)
    )


def test_a_node_that_went_down_comes_back_with_a_new_registration() -> None:
    """scheduler 8.2 another register annotation."""
    assert judge("", history=HealthHistory(0, "before")).healthy


def test_a_node_that_went_down_comes_back_with_a_report() -> None:
    """B-26."""
    assert judge("Reported now", history=HealthHistory(0, "r")).healthy


def test_a_node_that_another_scheduler_found_down_is_down() -> None:
    """B-26."""
    assert judge("Deleted_2026-01-01 11:00:00") == HealthResult(
        healthy=False, action=HandshakeAction.NOTHING, history=HealthHistory(0, "r")
    )


@pytest.mark.parametrize("count", [0, 8])
def test_a_vendor_that_registered_nothing_is_absent_and_not_asked(count: int) -> None:
    assert judge("", count, register=None) == HealthResult(
        healthy=False, action=HandshakeAction.NOTHING, history=HealthHistory()
    )


@pytest.mark.parametrize("handshake", [YOUNG, OLD, "Deleted_2026-01-01 11:00:00"])
def test_an_old_question_to_an_absent_vendor_is_taken_back(handshake: str) -> None:
    """B-56."""
    assert judge(handshake, register=None).action is HandshakeAction.REMOVE


def test_the_report_of_an_absent_vendor_is_left_alone() -> None:
    assert judge("Reported now", register=None).action is HandshakeAction.NOTHING


def test_every_node_is_asked_when_all_are_to_be_probed() -> None:
    observation = Observation("", None, 0, is_used=False)
    assert check_health(observation, FRESH, NOW, COUNTED, "all").action is HandshakeAction.ASK


def test_without_counting_an_offer_that_is_taken_back_leaves_the_answer_to_the_handshake() -> None:
    before = check_health(Observation(YOUNG, "r", 8, is_used=True), FRESH, NOW, ASKED).history
    assert check_health(Observation(YOUNG, "r", 0, is_used=True), before, NOW, ASKED).healthy


@pytest.mark.parametrize("capacity", [0, 4])
def test_cards_of_a_capacity_are_healthy_while_there_is_some(capacity: int) -> None:
    observation = Observation("", None, 0, is_used=True, capacity=capacity)
    assert check_health(observation, FRESH, NOW, HealthRules(kind="capacity")).healthy is (capacity > 0)


def test_a_capacity_that_is_gone_takes_the_registration_with_it_where_the_profile_says_so() -> None:
    rules = HealthRules(kind="capacity", clean_register=True)
    assert check_health(Observation("", "r", 0, is_used=True), FRESH, NOW, rules).action is HandshakeAction.UNREGISTER


@pytest.mark.parametrize("register", ["", None, "[]"])
def test_an_annotation_that_says_anything_is_healthy(register: str | None) -> None:
    assert check_health(
        Observation("", register, 0, is_used=True), FRESH, NOW, HealthRules(kind="annotation")
    ).healthy is (register == "[]")


def test_cards_without_any_sign_of_life_are_always_healthy() -> None:
    assert check_health(Observation("", None, 0, is_used=True), FRESH, NOW, HealthRules(kind="always")).healthy
