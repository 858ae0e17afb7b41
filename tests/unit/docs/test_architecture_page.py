"""docs/architecture.md names only files that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_file_that_is_named_is_there() -> None:
    named = re.findall(r"`(\w+/[\w./-]+)`", PAGE)
    assert len(named) > 30
    assert [name for name in named if not ((ROOT / name).exists() or (ROOT / "src" / "gpuloom" / name).exists())] == []
