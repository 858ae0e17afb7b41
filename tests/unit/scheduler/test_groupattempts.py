"""How members of groups are forgotten that do not wait any more (binding 2.2)."""

import pytest

from gpuloom.scheduler.groups.attempts import GroupAttempts
from gpuloom.wire.objects import ObjectMeta, Pod, PodSpec, SchedulingGroup


def member(uid: str, group: str = "train") -> Pod:
    return Pod(
        metadata=ObjectMeta(name=uid, namespace="ml", uid=uid), spec=PodSpec(scheduling_group=SchedulingGroup(group))
    )


def filtered(*pods: Pod) -> GroupAttempts:
    attempts = GroupAttempts()
    for pod in pods:
        attempts.note_filtered(pod, "", 0.0)
    return attempts


def test_others_have_their_turn_between_two_members() -> None:
    attempts = filtered(*(member(f"u{number}") for number in range(20)))
    assert sum(1 for _ in attempts.keep(lambda _: True)) == 20


def test_members_that_do_not_wait_are_forgotten_and_groups_without_any() -> None:
    attempts = filtered(member("stays"), member("goes"), member("alone", "other"))
    assert list(attempts.keep(lambda uid: uid == "stays"))
    found = attempts.find(member("stays"))
    assert found is not None
    assert list(found.words) == ["stays"]
    assert attempts.find(member("alone", "other")) is None


def test_a_member_that_is_filtered_while_others_are_looked_at_is_kept() -> None:
    attempts = filtered(member("goes"))
    steps = attempts.keep(lambda uid: uid != "goes")
    next(steps)
    attempts.note_filtered(member("comes"), "", 0.0)
    assert list(steps) == []
    found = attempts.find(member("comes"))
    assert found is not None
    assert list(found.words) == ["comes"]


def fail(attempts: GroupAttempts) -> None:
    """Let one member fit, and give its cards back, and another one not."""
    attempts.note_given_back(member("fits"))
    attempts.note_refused(member("refused"))


@pytest.mark.parametrize("gone", ["fits", "refused"])
def test_a_group_is_not_refused_because_of_members_that_do_not_wait_any_more(gone: str) -> None:
    attempts = filtered(member("fits"), member("refused"), member("other"))
    fail(attempts)
    assert attempts.find_objection(member("other"), 1.0)
    assert list(attempts.keep(lambda uid: uid != gone))
    assert attempts.find_objection(member("other"), 1.0) == ""


def test_a_group_is_not_refused_because_of_a_member_that_was_filtered_again_and_fits() -> None:
    attempts = filtered(member("fits"), member("refused"))
    fail(attempts)
    attempts.note_filtered(member("refused"), "", 1.0)
    attempts.note_given_back(member("fits"))
    assert attempts.find_objection(member("fits"), 2.0) == ""
