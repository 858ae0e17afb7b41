"""What the chart knows of vendors is as its tool writes it from their profiles."""

import runpy
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools/chart/devices.py"


def test_the_chart_knows_the_vendors_as_they_are() -> None:
    tool = runpy.run_path(str(TOOL))
    assert tool["FILE"].read_text() == tool["render"](), f"run python {TOOL}"
