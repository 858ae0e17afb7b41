"""docs/comparison.md names every switch of the scheduler, with values that it takes and that are not its default."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from gpuloom.cli.commands import build_app
from gpuloom.scheduler.flags import SchedulerFlags

PAGE = (Path(__file__).parents[3] / "docs" / "comparison.md").read_text(encoding="utf-8")
SETTINGS = re.findall(r"`(--[a-z0-9-]+=[^`]+)`", PAGE)
NAMES = [field.name for field in fields(SchedulerFlags)]
SWITCHES = NAMES[NAMES.index("device_sort") :]
"""They stand together at the end."""


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch_is_told(switch: str):
    assert [told for told in SETTINGS if told.startswith(f"--{switch.replace('_', '-')}=")] != []


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_is_told_changes_something(setting: str):
    _, bound, _ = build_app().parse_args(["scheduler", setting], exit_on_error=False, print_error=False)
    flags = bound.arguments["flags"]
    assert isinstance(flags, SchedulerFlags)
    assert flags != SchedulerFlags()
