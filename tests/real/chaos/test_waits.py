"""Who waits, waits for room and for nothing else, on a real control plane (binding 3 and 4)."""

from pathlib import Path

import pytest

from harness.waits import bind_at_once, count_tries, free_a_card, open_fleet

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

PODS = 40


async def test_many_pods_for_one_node_queue_for_its_lock(control_plane_binaries: None, tmp_path: Path) -> None:
    async with open_fleet(tmp_path, cards=4, allocate_s=0.1) as (fleet, accounts):
        took_s = await bind_at_once(fleet, accounts, PODS)
        print(f"{PODS} pods at once for one node, 100 ms an Allocate: {took_s:.1f} s")
        assert accounts.violations == []
        assert {pod.spec.node_name for pod in accounts.pods.values()} == {"node-0"}


@pytest.mark.parametrize("lag_s", [0.0, 0.3], ids=["watch in time", "watch 300 ms late"])
async def test_a_pod_that_waits_gets_the_card_that_becomes_free(
    control_plane_binaries: None, tmp_path: Path, lag_s: float
) -> None:
    async with open_fleet(tmp_path, cards=1, allocate_s=0.01) as (fleet, accounts):
        took_s = await free_a_card(fleet, accounts, lag_s=lag_s)
        print(f"a card becomes free, watch {lag_s * 1000:.0f} ms late: {took_s:.2f} s")
        assert accounts.violations == []


async def test_an_important_pod_that_waits_is_not_tried_over_and_over(
    control_plane_binaries: None, tmp_path: Path
) -> None:
    """binding 12: as HAMi answers it is tried three hundred times in these two seconds."""
    assert await count_tries(tmp_path, "unresolvable", nodes=10, for_s=2.0) < 20
