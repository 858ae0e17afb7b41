"""docs/threats.md has a row for each threat, and a test that is there for each that is not open."""

import re
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/threats.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (T-\d\d) \|(.*)\|$", re.MULTILINE)
NAMED = re.compile(r"`(tests/[\w./-]+\.py)::(test_\w+)`")
ROWS = {name: [cell.strip() for cell in cells.split(" | ")] for name, cells in ROW.findall(PAGE)}
THREATS = [f"T-{number:02}" for number in range(1, 18)]


@lru_cache
def list_tests(path: str) -> frozenset[str]:
    file = ROOT / path
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return frozenset(re.findall(r"^ *(?:async )?def (test_\w+)", text, re.MULTILINE))


def test_every_threat_has_a_row_in_order() -> None:
    assert list(ROWS) == THREATS


@pytest.mark.parametrize("threat", THREATS)
def test_a_row_says_attack_promise_what_enforces_it_tests_and_state(threat: str) -> None:
    cells = ROWS[threat]
    assert len(cells) == 5
    assert all(cells)
    assert cells[-1] in {"held", "partly", "open"}


@pytest.mark.parametrize("threat", THREATS)
def test_a_threat_that_is_not_open_has_a_test_that_is_there(threat: str) -> None:
    *_, tests, state = ROWS[threat]
    named = NAMED.findall(tests)
    assert named or state == "open"
    assert [f"{path}::{name}" for path, name in named if name not in list_tests(path)] == []
    assert NAMED.sub("", tests).strip() == ""


def test_how_to_report_is_told_without_an_address() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "private vulnerability reporting" in text
    assert not re.search(r"\S+@\S+\.\w+", text)


def test_the_version_that_is_mended_is_this_one() -> None:
    version = re.search(r'^version = "(\d+\.\d+)', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert version
    assert f"| {version[1]} | yes |" in text


def test_the_links_of_the_security_file_lead_to_files() -> None:
    links = re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []
