"""What code, tests and pages cite of the specification is there: a heading, a row or a page (docs/spec/README.md)."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages.citations import DOCS, PAGES, ROOT, ROW_PAGES, list_dead, list_dead_numbers, read_page

FOLDERS = ("src", "tests", "benchmarks", "docs", "charts", "tools", "images")
FILES = ("README.md", "CHANGELOG.md", "SECURITY.md", "Makefile", "pyproject.toml", "mkdocs.yml")
SUFFIXES = {".py", ".toml", ".md", ".yaml", ".yml", ".tpl", ".txt", ".html", ".js", ".css", ".proto", ".sh", ""}
SPARED = (ROOT / "tests/fuzz/corpus", ROOT / "tests/data", Path(__file__))
"""Bytes of strangers, and what this file makes up."""

ORACLE = {"tests/oracle/vendors": ("vendors", "scheduler"), "tests/oracle": ("scheduler",)}
"""The executable specification cites its pages by numbers alone."""

DEAD = {
    "Where it is told (scheduler 6.99).": ["scheduler 6.99"],
    '"""binding 2 step 77; binding 2.1 unknown."""': ["binding 2 step 77"],
    "# Source: wire protocol 3.1, 12.4 and 5.": ["wire protocol 12.4"],
    "(scheduler 6.3 rows 8 and 99, 5.2)": ["scheduler 6.3 rows 8 and 99"],
    "Told in two lines (device\n    # plugin 10.9).": ["device plugin 10.9"],
    "Vendors 9.1: a table": ["vendors 9.1"],
    "B-09, B-99, V-05b and V-05c": ["B-99", "V-05c"],
    "trust T-77; D-39": ["T-77"],
    "(decision 014), [decision 999](decisions/014-who-else-decides.md)": ["decision 999"],
    "kube reflector 11; kube client limits; kube client luck": ["kube reflector 11", "kube client luck"],
}
ALIVE = (
    "(scheduler 4.2 to 4.4)",
    "The scheduler 20 seconds later, or 30 s, binding 40 pods",
    "kube-scheduler 1.34 and kube-apiserver 1.34",
    "vendors 4.7.2, 4.13; device plugin 4 and 12.1",
    "names since HAMi 2.9; B-1 and GPU-B-09",
    "of 1,000 decisions 99.5 are quick, decisions 1,000 times",
)


def list_files() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.is_file())
    yield from (ROOT / name for name in FILES)


def list_read() -> Iterator[tuple[Path, str]]:
    for path in list_files():
        spared = any(path == one or one in path.parents for one in SPARED)
        if path.suffix in SUFFIXES and not spared and "__pycache__" not in path.parts:
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")


def test_every_citation_leads_somewhere():
    assert [f"{path}: {dead}" for path, text in list_read() for dead in list_dead(text)] == []


@pytest.mark.parametrize("folder", ORACLE)
def test_every_number_in_the_executable_specification_is_a_heading(folder: str):
    paths = tuple(PAGES[name] for name in ORACLE[folder])
    files = sorted((ROOT / folder).glob("*.py"))
    assert files
    assert [f"{one.name}: {dead}" for one in files for dead in list_dead_numbers(one.read_text(), paths)] == []


@pytest.mark.parametrize(("text", "dead"), DEAD.items(), ids=[dead[0] for dead in DEAD.values()])
def test_an_invented_citation_is_found(text: str, dead: list[str]):
    assert list(list_dead(text)) == dead


@pytest.mark.parametrize("text", ALIVE)
def test_what_leads_somewhere_and_what_is_no_citation_is_left_alone(text: str):
    assert list(list_dead(text)) == []


def test_an_invented_number_in_the_executable_specification_is_found():
    text = '"""Score the cards (5.2, and scheduler 5.4)."""\nx = 9.9  # by the rules of 6.99\n'
    assert list(list_dead_numbers(text, (PAGES["scheduler"],))) == ["6.99"]


@pytest.mark.parametrize("path", sorted({*PAGES.values(), *(path for paths in ROW_PAGES.values() for path in paths)}))
def test_a_page_that_is_cited_has_no_heading_or_row_twice(path: str):
    text = (DOCS / path).read_text(encoding="utf-8")
    page = read_page(text)
    assert page.sections or page.ids
    assert [row for row in page.ids if text.count(f"\n| {row} |") != 1] == []


def test_the_list_of_pages_names_every_page():
    folder = DOCS / "spec"
    text = (folder / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[[^]]+\]\(([\w-]+\.md)\) \|", text, re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in folder.glob("*.md") if path.name != "README.md")
