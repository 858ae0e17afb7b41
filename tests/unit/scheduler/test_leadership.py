"""Who leads, as the lease says it (scheduler 8.4, binding 5)."""

import pytest

from gpuloom.scheduler.leadership.lease import LeaseState, Term
from gpuloom.wire.objects import Lease, LeaseSpec


def lease(
    holder: str | None = "node-1_a", *, renewed: str = "1", transitions: int | None = 0, duration_s: int | None = 15
) -> Lease:
    return Lease(
        spec=LeaseSpec(
            holder_identity=holder,
            renew_time=renewed,
            lease_transitions=transitions,
            lease_duration_seconds=duration_s,
        )
    )


def leadership(*seen: tuple[Lease | None, float]) -> LeaseState:
    made = LeaseState("node-1")
    for one, when in seen:
        made.observe(one, when)
    return made


def test_nobody_leads_before_the_lease_is_seen() -> None:
    assert leadership().obstacle(0) == "nobody leads: the lease has no holder"


@pytest.mark.parametrize("holder", [None, ""])
def test_nobody_leads_without_a_holder(holder: str | None) -> None:
    assert leadership((lease(holder), 0)).term(1) is None


def test_nobody_leads_when_the_lease_is_gone() -> None:
    assert leadership((lease(), 0), (None, 1)).term(1) is None


def test_the_host_that_holds_the_lease_leads() -> None:
    """scheduler 8.4 holder test."""
    assert leadership((lease(transitions=3), 0)).term(9) == Term("node-1_a", 3)


@pytest.mark.parametrize("holder", ["node-10_a", "node-1", "node-2_a"])
def test_another_host_is_not_taken_for_this_one(holder: str) -> None:
    """B-35; scheduler 8.4 holder test."""
    assert leadership((lease(holder), 0)).obstacle(1) == f"not the leader: {holder} is"


def test_ten_seconds_without_a_renewal_end_leading() -> None:
    follower = leadership((lease(), 0))
    assert (follower.obstacle(9.9), bool(follower.obstacle(10))) == ("", True)


def test_a_shorter_lease_ends_earlier() -> None:
    """scheduler 8.4 leaseDurationSeconds."""
    assert leadership((lease(duration_s=4), 0)).term(4) is None


def test_a_lease_that_names_no_duration_ends_after_ten_seconds() -> None:
    follower = leadership((lease(duration_s=None), 0))
    assert (follower.obstacle(9.9), bool(follower.obstacle(10))) == ("", True)


def test_a_lease_that_counts_no_changes_has_its_first_holder() -> None:
    assert leadership((lease(transitions=None), 0)).term(1) == Term("node-1_a", 0)


def test_a_renewal_goes_on() -> None:
    assert leadership((lease(renewed="1"), 0), (lease(renewed="2"), 8)).term(15) is not None


def test_the_same_lease_seen_again_is_no_renewal() -> None:
    """scheduler 8.4 observed change."""
    assert leadership((lease(), 0), (lease(), 9)).term(10) is None


def test_the_same_holder_after_a_change_is_another_term() -> None:
    """binding 5 term."""
    before = leadership((lease(transitions=1), 0)).term(1)
    assert leadership((lease(transitions=2), 0)).term(1) != before
