"""What counts as flat: the same process in the third and in the last quarter."""

from harness.chaos.footprint import Sample, find_growth

DURATION_S = 400.0


def grow(process: str, pid: int, *, from_s: float = 0.0, mib_per_s: float = 0.0) -> list[Sample]:
    return [
        Sample(float(at_s), process, pid, 100 + mib_per_s * at_s, 90.0, 20)
        for at_s in range(0, int(DURATION_S), 4)
        if at_s >= from_s
    ]


def test_a_process_that_stays_as_it_is_is_flat() -> None:
    growth = find_growth(grow("a", 1), DURATION_S)
    assert {one.measure for one in growth} == {"rss_mib", "anonymous_mib", "descriptors"}
    assert all(one.is_flat for one in growth)


def test_a_process_that_grows_by_more_than_two_and_a_half_per_cent_is_not() -> None:
    assert [one.measure for one in find_growth(grow("a", 1, mib_per_s=0.03), DURATION_S) if not one.is_flat] == [
        "rss_mib"
    ]


def test_growth_in_the_first_half_does_not_count() -> None:
    young = [Sample(float(at_s), "a", 1, at_s, at_s, 20) for at_s in range(1, 200)]
    assert all(one.is_flat for one in find_growth([*young, *grow("a", 1, from_s=200)], DURATION_S))


def test_a_process_that_was_started_anew_meanwhile_is_not_judged() -> None:
    lives = [*grow("a", 1)[:75], *grow("a", 2, from_s=300)]
    assert find_growth(lives, DURATION_S) == []


def open_connections(*, leads: range, each_s: float = 0.0) -> list[Sample]:
    """One process with 20 descriptors, 50 while it leads, and one more that stays open every `each_s`."""
    return [
        Sample(float(at_s), "a", 1, 100, 90, (50 if at_s in leads else 20) + (int(at_s / each_s) if each_s else 0))
        for at_s in range(0, int(DURATION_S), 4)
    ]


def test_a_process_that_leads_for_longer_in_the_last_quarter_is_flat() -> None:
    assert all(one.is_flat for one in find_growth(open_connections(leads=range(320, 390)), DURATION_S))


def test_a_process_that_leaves_connections_open_is_not_flat() -> None:
    growth = find_growth(open_connections(leads=range(220, 290), each_s=40), DURATION_S)
    assert [one.measure for one in growth if not one.is_flat] == ["descriptors"]
