"""The chart's table of resources is as its tool writes it from the vendors' profiles."""

import runpy
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools/chart/managed_resources.py"


def test_the_table_is_current() -> None:
    tool = runpy.run_path(str(TOOL))
    assert tool["FILE"].read_text() == tool["render"](), f"run python {TOOL}"
