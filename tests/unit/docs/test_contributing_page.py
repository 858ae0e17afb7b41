"""docs/contributing.md names every target of the Makefile, and only files that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")


def test_every_target_is_told():
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z]+)`", PAGE)) == targets


def test_every_file_that_is_named_is_there():
    named = re.findall(
        r"`((?:src|tests|tools|charts|docs)/[\w./-]+|pyproject\.toml|mkdocs\.yml|requirements\.lock)`", PAGE
    )
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []
