"""One name means one class, some words one thing, each folder says what it is for, and the glossary is sorted."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "gpuloom"
LARGE_PACKAGES = (PACKAGE / "engine", PACKAGE / "scheduler")
FOLDERS = sorted({path.parent for package in LARGE_PACKAGES for path in package.rglob("*.py")})
PARTS = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("\n## ")[1:]

ONE_MEANING = {
    "bounds": ("engine/filtering/quota_bounds.py", "simulation/experiment.py"),
    "leaving": ("engine/planning/preemption/", "scheduler/preemption/", "web/views/values.py"),
    "obstacle": ("scheduler/leadership/", "web/views/values.py"),
    "obstacles": (),
    "phase": (
        "doctor/cluster/objects.py",
        "engine/explanation/values.py",
        "scheduler/bind/verb.py",
        "scheduler/pods/unreadable.py",
        "wire/keys.py",
        "wire/objects.py",
    ),
    "phases": (),
    "reserve": ("engine/state/allocations.py", "scheduler/filter/decide.py", "simulation/policies/engine_policy.py"),
    "study": (),
    "unserved": (
        "doctor/cluster/nodes.py",
        "engine/state/unserved.py",
        "scheduler/bind/",
        "scheduler/events/unserved.py",
    ),
}
"""Words of names that had several meanings, and where they have the one that is left: it is in the glossary, or it is
Kubernetes'. What the API answers keeps its words."""

LEAST_LINES, MOST_LINES = 3, 14
"""Of the docstring of a folder; the package's own has a line for each folder besides."""
ESSAYS = {"filtering", "decision"}
"""Folders whose way of working takes longer to tell."""


@cache
def read_package() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in PACKAGE.rglob("*.py")
        if not path.stem.endswith(("_pb2", "_pb2_grpc"))
    }


def list_public_classes() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for where, module in read_package().items():
        for node in module.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(where)
    return found


@cache
def list_names() -> set[tuple[str, str]]:
    """Give the names of modules, classes and their fields, functions and their parameters, each with its file."""
    found: set[tuple[str, str]] = set()
    for where, module in read_package().items():
        found.add((where, Path(where).stem))
        for node in ast.walk(module):
            match node:
                case (
                    ast.ClassDef(name=name)
                    | ast.FunctionDef(name=name)
                    | ast.AsyncFunctionDef(name=name)
                    | ast.arg(arg=name)
                    | ast.AnnAssign(target=ast.Name(id=name))
                ):
                    found.add((where, name))
    return found


def split_words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def test_no_two_public_classes_have_one_name() -> None:
    shared = {name: sorted(paths) for name, paths in list_public_classes().items() if len(paths) > 1}
    assert shared == {}


@pytest.mark.parametrize("word", ONE_MEANING)
def test_a_word_that_had_several_meanings_has_one(word: str) -> None:
    found = {(where, name) for where, name in list_names() if word in split_words(name)}
    assert {(where, name) for where, name in found if not where.startswith(ONE_MEANING[word])} == set()


def test_to_place_is_a_verb_in_engine_and_scheduler() -> None:
    found = {where for where, name in list_names() if name in {"place", "places"}}
    methods = {"engine/placement/placer.py", "engine/planning/defragmentation/trials.py"}
    assert {where for where in found if where.startswith(("engine/", "scheduler/"))} == methods


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
