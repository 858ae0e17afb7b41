"""docs/flags.md leads to every flag, and tells what node.md leaves to the scheduler."""

import re
from pathlib import Path

import msgspec
import pytest

from gpuloom.wire.device_config import NvidiaConfig

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "flags.md").read_text(encoding="utf-8")
FIELDS = {field.encode_name: field for field in msgspec.structs.fields(NvidiaConfig)}


def told_keys() -> set[str]:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    return {word for row in rows for word in re.findall(r"`(\w+)`", row)}


def test_the_device_configuration_is_told_here_or_on_the_nodes_page():
    elsewhere = set(re.findall(r"`(\w+)`", (DOCS / "node.md").read_text(encoding="utf-8")))
    assert set(FIELDS) - elsewhere <= told_keys() <= set(FIELDS)


@pytest.mark.parametrize("process", ["scheduler", "device-plugin", "monitor"])
def test_every_process_has_its_way_to_the_table_of_its_flags(process: str):
    assert f"cli.md#gpuloom-{process}" in PAGE
