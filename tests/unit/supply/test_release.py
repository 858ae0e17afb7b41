"""A release is tagged with the changelog's section of its version, and only when all sources name that version."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
READY = {
    "pyproject.toml": '[project]\nversion = "1.2.3"\n',
    "charts/gpuloom/Chart.yaml": "version: 1.2.3\nappVersion: 1.2.3\n",
    "docs/installation.md": "docker build -t REGISTRY/gpuloom/node:1.2.3 .\n",
    "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n## 1.2.3 (2026-12-01)\n\n- Cards.\n\n"
    "## 1.2.2 (2026-11-01)\n\n- Old.\n",
}


def release(directory: Path, **changes: str) -> tuple[int, str, str]:
    for name, text in (READY | changes).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copytree(ROOT / "tools", directory / "tools", ignore=lambda _, names: {"controlplane"} & set(names))
    done = subprocess.run([sys.executable, directory / "tools/release.py"], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_notes_are_the_section_of_the_version_and_nothing_else(tmp_path: Path) -> None:
    assert release(tmp_path) == (0, "gpuloom 1.2.3\n\n- Cards.\n", "")


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("charts/gpuloom/Chart.yaml", "version: 1.2.3\nappVersion: 1.2.2\n", "make them agree"),
        ("docs/installation.md", "gpuloom/node:1.2.2", "docs/installation.md names images of 1.2.2, and this is 1.2.3"),
        ("CHANGELOG.md", "## Unreleased\n\n- New.\n\n## 1.2.3 (2026-12-01)\n\n- Cards.\n", "changes under"),
        ("CHANGELOG.md", "## Unreleased\n\n## 1.2.2 (2026-11-01)\n\n- Old.\n", 'no "## 1.2.3 (YEAR-MONTH-DAY)"'),
        ("CHANGELOG.md", "## Unreleased\n\n- All.\n", 'no "## 1.2.3 (YEAR-MONTH-DAY)"'),
    ],
)
def test_sources_that_are_not_ready_give_no_notes(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    status, notes, told = release(tmp_path, **{name: text})
    assert (status, notes) == (1, "")
    assert told.startswith("release: ")
    assert complaint in told
