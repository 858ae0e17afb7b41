"""docs/licences.md lists what is in the images; what asks for more than its text is flagged (trust T-13)."""

import re
import runpy
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOOL = runpy.run_path(str(ROOT / "tools/supply/licences.py"))
PAGE = (ROOT / "docs/licences.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([\w.-]+) \| (.+) \| (yes|\*\*no\*\*) \|$", re.MULTILINE)


def test_the_page_is_what_the_packages_say() -> None:
    assert TOOL["write_page"]() == PAGE, "run .venv/bin/python tools/supply/licences.py"


def test_every_package_of_the_images_is_listed() -> None:
    assert {name for name, *_ in ROW.findall(PAGE)} == set(TOOL["list_packages"]())


def test_no_licence_asks_for_more_than_its_text() -> None:
    assert [name for name, _, permissive in ROW.findall(PAGE) if permissive != "yes"] == []


@pytest.mark.parametrize(
    ("headers", "licence", "permissive"),
    [
        ([("License-Expression", "MIT OR GPL-3.0-only")], "MIT OR GPL-3.0-only", False),
        ([("License-Expression", "Apache-2.0 AND (MIT OR Zlib)")], "Apache-2.0 AND (MIT OR Zlib)", True),
        ([("Classifier", "License :: OSI Approved :: MIT License"), ("License", "odd")], "MIT", True),
        ([("Classifier", "Topic :: Security"), ("License", "Apache 2.0")], "Apache-2.0", True),
        ([("License", "Proprietary")], "Proprietary", False),
        ([], "not told", False),
    ],
)
def test_a_licence_is_read_and_judged(headers: list[tuple[str, str]], licence: str, permissive: bool) -> None:  # noqa: FBT001
    told = Message()
    for key, value in headers:
        told[key] = value
    assert TOOL["read_licence"](told) == licence
    assert TOOL["is_permissive"](licence) is permissive
