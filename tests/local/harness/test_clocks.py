"""The wall clock of one process can be stepped while it runs, and its monotonic clock goes on."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from harness import clocks
from harness.availability import require
from harness.clocks import SteppedClock, tidy_up
from harness.processes import clean_environment

TELL = """
import asyncio, time, uvloop
async def tell():
    while True:
        print(time.time() - time.monotonic(), asyncio.get_running_loop().time(), flush=True)
        await asyncio.sleep(0.02)
uvloop.run(tell())
"""
LINES = 500
PATIENCE_S = 60.0


@pytest.mark.parametrize("step_s", [2.0, -2.0])
def test_a_step_shows_in_the_wall_clock_alone(tmp_path: Path, step_s: float) -> None:
    obstacle = clocks.describe_obstacle()
    require(obstacle is None, f"no stepped clock: {obstacle}")
    clock = SteppedClock(tmp_path / "clock")
    environment = clean_environment() | clock.environment
    command = [sys.executable, "-c", TELL]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            told = (tuple(map(float, line.split())) for line in process.stdout)
            before_s, before_loop_s = next(told)
            clock.step_to(step_s)
            found_s, loop_s = next(now for now in islice(told, LINES) if abs(now[0] - before_s) > 1)
            assert found_s - before_s == pytest.approx(step_s, abs=0.1)
            assert 0 < loop_s - before_loop_s < PATIENCE_S
        finally:
            process.kill()
            process.wait()
            tidy_up(process.pid)
