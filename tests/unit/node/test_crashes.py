"""How often the server may end by itself (device plugin 2)."""

import pytest

from gpuloom.node.crashes import CrashCount
from gpuloom.node.errors import CrashLoopError


def crash(*times_s):
    crashes = CrashCount()
    for time_s in times_s:
        crashes.add(time_s, "its socket was removed")


def test_five_crashes_are_borne():
    crash(0, 1, 2, 3, 4)


def test_a_sixth_is_too_many():
    with pytest.raises(CrashLoopError, match=r"ended 6 times .*its socket was removed"):
        crash(0, 1, 2, 3, 4, 5)


def test_an_hour_of_quiet_forgets_them():
    crash(0, 1, 2, 3, 4, 3605)


def test_an_hour_counts_from_the_last_one():
    with pytest.raises(CrashLoopError):
        crash(0, 3000, 6000, 9000, 12000, 15000)
