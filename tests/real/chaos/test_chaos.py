"""The scheduler in a storm, on a real control plane (binding 1 to 4)."""

from pathlib import Path

import pytest

from harness.chaos import Plan, run_chaos

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]


async def test_nothing_is_given_away_twice_and_nobody_forgotten(control_plane_binaries: None, tmp_path: Path) -> None:
    outcome = await run_chaos(tmp_path, Plan())
    print(outcome)
    assert outcome.complaints == []
