"""One name means one class, each folder of engine and scheduler says what it is for, and the glossary is sorted."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "gpuloom"
LARGE_PACKAGES = (PACKAGE / "engine", PACKAGE / "scheduler")
FOLDERS = sorted({path.parent for package in LARGE_PACKAGES for path in package.rglob("*.py")})
PARTS = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("\n## ")[1:]

LEAST_LINES, MOST_LINES = 3, 14
"""Of the docstring of a folder; the package's own has a line for each folder besides."""
ESSAYS = {"filtering", "decision"}
"""Folders whose way of working takes longer to tell."""


def list_public_classes() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        if path.stem.endswith(("_pb2", "_pb2_grpc")):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(str(path.relative_to(PACKAGE)))
    return found


def test_no_two_public_classes_have_one_name() -> None:
    shared = {name: sorted(paths) for name, paths in list_public_classes().items() if len(paths) > 1}
    assert shared == {}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_folder_says_what_it_is_for(folder: Path) -> None:
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert docstring is not None
    most = 30 if folder.name in ESSAYS else MOST_LINES + (len(FOLDERS) if folder in LARGE_PACKAGES else 0)
    assert LEAST_LINES <= len(docstring.splitlines()) <= most


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.split()[0])
def test_the_glossary_is_sorted_and_says_one_sentence_of_each_word(part: str) -> None:
    rows = re.findall(r"^\| (?!Word \||---)(.+?) \| (.+) \|$", part, re.MULTILINE)
    words = [word.casefold() for word, _ in rows]
    assert words == sorted(set(words))
    assert [word for word, meaning in rows if not re.fullmatch(r"[^.]+(\.\w[^.]*)*\.", meaning)] == []
