"""With ``fragmentation``, 200 nodes in the mix of a real cluster are filled as far as the simulator says."""

from pathlib import Path

import pytest

from gpuloom.simulation.arrivals import make_arrivals
from gpuloom.simulation.cluster import TraceCluster
from gpuloom.simulation.loop import place_all
from gpuloom.simulation.measure import allocation_curve, count_failed_multi_gpu
from gpuloom.simulation.policies import POLICY_MAKERS
from harness.arriving import fill, read_list, read_mix

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]
NODES, SEED = 200, 1


async def test_what_is_allocated_agrees_within_a_point_with_the_simulator(
    control_plane_binaries: None, tmp_path: Path
) -> None:
    nodes, pods = read_mix(NODES), read_list("default")
    cluster = TraceCluster(nodes)
    arriving = make_arrivals(pods, cluster.capacity, SEED)
    found = await fill(
        tmp_path, nodes, arriving, policy="fragmentation", workload=pods, percent_of_nodes=100, timeout_s=400
    )
    said = place_all(cluster, arriving, POLICY_MAKERS["fragmentation"], workload=pods, mode="B", seed=SEED)
    curves = [allocation_curve(journal, cluster.capacity) for journal in (found, said)]
    # When as much was asked for as there is, and in the end.
    for percent in (100, 130):
        reached, simulated = (curve[percent - 1] for curve in curves)
        assert reached == pytest.approx(simulated, abs=1), (percent, count_failed_multi_gpu(found))
