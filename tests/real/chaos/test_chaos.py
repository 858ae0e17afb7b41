"""Everything that may fail fails, on a real control plane, and every promise is kept (binding 1 to 5, trust T-08)."""

import asyncio
from pathlib import Path

import pytest

from harness import clocks, replicas
from harness.availability import require
from harness.chaos.engine import run_chaos
from harness.chaos.plan import STORM, TWO_MINUTES, Plan
from harness.chaos.report import describe

pytestmark = [pytest.mark.control_plane, pytest.mark.alone, pytest.mark.timeout(600)]


async def test_nothing_is_given_away_twice_and_nobody_forgotten_in_a_storm(
    control_plane_binaries: None, tmp_path: Path
) -> None:
    outcome = await run_chaos(tmp_path, STORM)
    print(describe(outcome))
    assert outcome.complaints == []
    assert outcome.counts["pods bound"] > STORM.rate * STORM.duration_s / 4


async def test_two_minutes_of_the_soak_keep_every_promise(control_plane_binaries: None, tmp_path: Path) -> None:
    for obstacle in (replicas.describe_obstacle(), clocks.describe_obstacle()):
        require(obstacle is None, f"no soak: {obstacle}")
    outcome = await run_chaos(tmp_path, TWO_MINUTES)
    print(describe(outcome))
    assert outcome.complaints == []
    assert outcome.figures["seconds calm"] > 0
    assert set(TWO_MINUTES.faults) <= _find_faults(outcome.counts)


async def test_a_stop_ends_it_with_what_was_found_until_then(control_plane_binaries: None, tmp_path: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(1.0, stop.set)
    outcome = await run_chaos(tmp_path, Plan(nodes=2, rate=2.0, replicas=1, faults={"cut_watches": 1}), stop=stop)
    assert outcome.is_interrupted
    assert outcome.figures["seconds"] < 60


def _find_faults(counts: dict[str, int]) -> set[str]:
    return {name.removeprefix("fault ") for name in counts if name.startswith("fault ")}
