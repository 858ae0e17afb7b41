"""docs/contributing.md names every target of the Makefile, and only files that are there."""

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")


def make(target: str, directory: Path) -> str:
    # Without the variables of a make that runs the tests.
    alone = {"PATH": os.environ["PATH"]}
    return subprocess.run(["make", target], cwd=directory, env=alone, capture_output=True, text=True, check=True).stdout


def test_every_target_is_told():
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", PAGE)) == targets


def test_help_lists_every_target_that_the_page_tells():
    listed = {line.split()[0] for line in make("help", ROOT).splitlines()}
    assert listed == set(re.findall(r"`make ([a-z-]+)`", PAGE))


def test_clean_removes_the_environment_and_leaves_the_rest(tmp_path: Path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for folder in (".venv/bin", "build/site", ".ruff_cache", "src"):
        (tmp_path / folder).mkdir(parents=True)
    make("clean", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"Makefile", "build", "src"}


def test_every_file_that_is_named_is_there():
    named = re.findall(
        r"`((?:src|tests|tools|charts|docs)/[\w./-]+|pyproject\.toml|mkdocs\.yml|requirements\.lock)`", PAGE
    )
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []
