"""Two replicas, and the leader is lost during a burst (binding 5)."""

from pathlib import Path

import pytest

from harness import replicas
from harness.availability import require

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]


async def test_the_other_replica_goes_on_and_gives_nothing_away_twice(
    control_plane_binaries: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    obstacle = replicas.describe_obstacle()
    require(obstacle is None, f"no two replicas: {obstacle}")
    outcome = await replicas.lose_leader(tmp_path)
    with capsys.disabled():
        print(f"{outcome.gap_s:.1f} s without a leader; {outcome}")
    assert outcome.new_leader.startswith("replica-b_")
    assert (outcome.over_allocated, outcome.locks_left, outcome.waiting) == ([], {}, [])
    assert not outcome.usage_differs
