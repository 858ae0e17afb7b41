"""What the self-test accepts of a limiter, and what it says of one that breaks a promise."""

import pytest

from gpuloom.local.selftest.comparing import ReportedUse, check_cores, check_priority, check_regions
from gpuloom.local.selftest.report import StepFailedError
from gpuloom.node.monitor.region import DeviceUse

MIB = 2**20
SIZE, LIMIT = 512 * MIB, 1024 * MIB


def tell(*, data=SIZE, total=SIZE, limit=LIMIT, process=SIZE, grown=SIZE, pid=7):
    region = DeviceUse(0, "GPU-a", limit, total - data, 0, data, 0, total, 0)
    return ReportedUse("GPU-a", pid, region, process, grown)


@pytest.mark.parametrize(
    "told",
    [
        [tell()],
        [tell(total=SIZE + 64 * MIB)],
        [tell(process=None)],
        [tell(grown=2 * SIZE), tell(grown=2 * SIZE, pid=8)],
    ],
    ids=["equal", "a context apart", "process not told", "two on a card"],
)
def test_regions_that_tell_what_nvml_tells_are_right(told):
    check_regions(told, SIZE, LIMIT)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([tell(limit=LIMIT // 2)], "the region of process 7 on card GPU-a is limited to 536870912 bytes"),
        ([tell(data=SIZE - 1)], "tells 536870911 bytes of data, the program holds 536870912"),
        ([tell(total=SIZE + 64 * MIB + 1)], "tells 603979777 bytes, NVML 536870912"),
        ([tell(process=None, grown=2 * SIZE)], "on card GPU-a tell 536870912 bytes, NVML 1073741824 more than before"),
        ([tell(process=None, grown=2 * SIZE), tell(process=None, grown=2 * SIZE, total=SIZE + 129 * MIB)], "on card"),
    ],
    ids=["limit", "data", "process", "card", "two on a card"],
)
def test_a_region_that_tells_otherwise_is_found_out(told, said):
    with pytest.raises(StepFailedError, match=said):
        check_regions(told, SIZE, LIMIT)


@pytest.mark.parametrize(("alone", "together"), [(25, [25, 25]), (15, [15, 35]), (35, [34.9])])
def test_paces_ten_points_from_their_limit_are_within_it(alone, together):
    check_cores(alone, together, 25)


@pytest.mark.parametrize(
    ("alone", "together", "said"),
    [
        (99, [25], "alone a program has 99 % of the pace without a limit, its limit is 25 %"),
        (14.9, [25], "alone a program has 15 %"),
        (25, [25, 36], "2 programs on one card have 25, 36 % of the pace without a limit, the limit of each is 25 %"),
        (25, [25, 0], "have 25, 0 %"),
    ],
    ids=["no limit", "too little alone", "too much", "starved"],
)
def test_paces_beyond_their_limit_and_short_of_it_are_found_out(alone, together, said):
    with pytest.raises(StepFailedError, match=said):
        check_cores(alone, together, 25)


def test_a_program_that_waits_and_goes_on_feels_priorities():
    check_priority(blocked=5, freed=15)


@pytest.mark.parametrize(
    ("blocked", "freed", "said"), [(5.1, 90, "and should wait"), (0, 14, "and should go on")], ids=["not", "for ever"]
)
def test_a_program_that_does_not_wait_or_waits_for_ever_is_found_out(blocked, freed, said):
    with pytest.raises(StepFailedError, match=said):
        check_priority(blocked, freed)
