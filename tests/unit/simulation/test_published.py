"""One seed of each list against recorded results, and those against published and measured means."""

import pytest

from gpuloom.simulation.arrivals import make_arrivals, take_arrived
from gpuloom.simulation.bound import bound_allocation, has_solver
from gpuloom.simulation.cluster import TraceCluster
from gpuloom.simulation.loop import place_all
from gpuloom.simulation.measure import allocation_curve
from gpuloom.simulation.policies import POLICY_MAKERS

SEED = 42
LISTS = ("default", "gpuspec33", "multigpu50", "gpushare100")
RECORDED = {
    ("Random", "A"): (85.49, 83.38, 80.50, 78.89),
    ("BestFit", "A"): (92.72, 80.18, 95.66, 84.78),
    ("FGD", "A"): (94.74, 87.62, 96.95, 86.17),
    ("binpack", "B"): (89.27, 83.61, 92.09, 80.73),
}
"""By policy and mode: the allocation ratio of this seed when 100 % has arrived, by list."""
BOUNDS = {"default": 96.90, "gpuspec33": 96.38, "multigpu50": 98.29, "gpushare100": 89.14}
"""The means of the seeds 42 to 51, section 6."""


@pytest.mark.long
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(("policy", "mode"), RECORDED, ids=["-".join(key) for key in RECORDED])
def test_a_seed_gives_what_was_recorded(openb, policy, mode, name):
    """Numbers of other processors may differ in the last digit, which moves a tie now and then."""
    cluster, pods = TraceCluster(openb.nodes), openb.pods(name)
    arriving = make_arrivals(pods, cluster.capacity, SEED)
    journal = place_all(cluster, arriving, POLICY_MAKERS[policy], workload=pods, mode=mode, seed=SEED)
    found = allocation_curve(journal, cluster.capacity)[100 - 1]
    assert found == pytest.approx(RECORDED[policy, mode][LISTS.index(name)], abs=0.05)


@pytest.mark.long
@pytest.mark.skipif(not has_solver(), reason="SciPy is missing")
@pytest.mark.parametrize("name", LISTS)
def test_what_no_policy_can_beat_is_near_the_mean_of_all_seeds(openb, name):
    cluster = TraceCluster(openb.nodes)
    arriving = make_arrivals(openb.pods(name), cluster.capacity, SEED)
    bound = bound_allocation(openb.nodes, take_arrived(arriving, cluster.capacity))
    assert bound == pytest.approx(BOUNDS[name], abs=0.25)
