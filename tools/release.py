"""Prints the notes of a release: the changelog's section of the version that the sources have.

Usage: .venv/bin/python tools/release.py. Ends with 1, and says why, where the sources are not ready to be tagged:
wheel, chart and pages name one version, and the changelog has its section with a date, right below an empty
"Unreleased".
"""

import re
import sys
from pathlib import Path

from publish import ROOT, PublishError, read_version

PAGES = ("docs/installation.md",)
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_IMAGE = re.compile(r"gpuloom/(?:scheduler|node):(\d+\.\d+\.\d+)")


def read_notes(root: Path = ROOT) -> str:
    """Return the notes of the version that is to be released. Raise PublishError where it is not ready."""
    version = read_version(root)
    for page in PAGES:
        if others := set(_IMAGE.findall((root / page).read_text())) - {version}:
            raise PublishError(f"{page} names images of {', '.join(sorted(others))}, and this is {version}")
    (_, waiting), *released = _SECTION.findall((root / "CHANGELOG.md").read_text())
    title, notes = released[0] if released else ("", "")
    if not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", title):
        raise PublishError(f'CHANGELOG.md has no "## {version} (YEAR-MONTH-DAY)" right below "## Unreleased"')
    if waiting.strip():
        raise PublishError(f'CHANGELOG.md still has changes under "Unreleased": move them to {version}')
    return f"gpuloom {version}\n\n{notes.strip()}\n"


if __name__ == "__main__":
    try:
        sys.stdout.write(read_notes())
    except PublishError as error:
        sys.exit(f"release: {error}")
