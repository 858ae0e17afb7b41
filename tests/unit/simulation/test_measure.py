import pytest

from gpuloom.simulation.measure import Journal, allocation_curve, count_failed_cpu_only, count_failed_multi_gpu


def journal(arrived, allocated, failed=None, gpus=None) -> Journal:
    count = len(arrived)
    return Journal(arrived, allocated, failed or [False] * count, gpus or [1] * count, [0.0] * count)


def test_the_ratio_is_the_mean_over_the_arrivals_that_round_to_a_percent():
    curve = allocation_curve(journal([996, 1004, 1010], [900, 904, 909]), 1000)
    assert curve[100 - 1] == 90.2


def test_halves_round_to_even():
    curve = allocation_curve(journal([995, 1005], [100, 300]), 1000)
    assert (curve[99 - 1], curve[100 - 1]) == (0.0, 20.0)


def test_where_nothing_arrives_the_ratio_stays_what_it_was():
    curve = allocation_curve(journal([500, 1000], [500, 800]), 1000)
    assert (curve[49 - 1], curve[50 - 1], curve[99 - 1], curve[130 - 1]) == (0.0, 50.0, 50.0, 80.0)


def test_failed_pods_without_gpus_count_until_all_is_asked_for():
    told = journal([0, 1000, 1000, 1100, 1100], [0, 0, 0, 0, 0], [True, True, True, True, True], [0, 1, 0, 1, 0])
    assert count_failed_cpu_only(told, 1000) == 2


def test_failed_pods_of_several_gpus_count_to_the_end():
    told = journal([1000, 2000, 4000], [0, 0, 0], [True, True, False], [1, 2, 2])
    assert count_failed_multi_gpu(told) == 1


@pytest.mark.parametrize("percent", [1, 100, 130])
def test_the_curve_has_a_ratio_for_every_percent(percent):
    assert allocation_curve(journal([10_000], [0]), 1000)[percent - 1] == 0.0
