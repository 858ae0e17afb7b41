"""Whether this process may decide and write (binding 5)."""

import pytest

from gpuloom.scheduler.leadership.charge import Charge, StoppedError


def test_who_knows_the_cluster_and_has_no_obstacle_may_write() -> None:
    charge = Charge(since=0.0)
    charge.check()
    assert (charge.is_ours, charge.objection) == (True, "")


@pytest.mark.parametrize(
    ("charge", "why"),
    [
        (Charge(), "the lists of pods and nodes are not complete yet"),
        (Charge("not the leader"), "not the leader"),
        (Charge("not the leader", 0.0), "not the leader"),
    ],
    ids=["nothing is listed", "another leads", "another leads now"],
)
def test_nobody_else_may_write_and_is_told_why(charge: Charge, why: str) -> None:
    assert (charge.is_ours, charge.objection) == (False, why)
    with pytest.raises(StoppedError, match=why):
        charge.check()
