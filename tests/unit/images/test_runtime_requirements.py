"""The images hold what gpuloom needs to run, and nothing for its developers alone."""

import re
import runpy
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
NAME = re.compile(r"^[\w.-]+", re.MULTILINE)


def select() -> str:
    tool = runpy.run_path(str(ROOT / "images/runtime_requirements.py"))
    return str(tool["select_runtime"]((ROOT / "requirements.lock").read_text()))


def read_project() -> dict[str, set[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    texts = {"run": project["project"]["dependencies"], "dev": project["dependency-groups"]["dev"]}
    return {kind: {NAME.match(one)[0] for one in lines} for kind, lines in texts.items()}  # type: ignore[index]


def test_every_dependency_is_in_and_no_developers_tool() -> None:
    found = set(re.findall(r"^([\w.-]+)==", select(), re.MULTILINE))
    assert read_project()["run"] <= found
    assert not read_project()["dev"] & found


def test_what_a_dependency_needs_is_in_as_well() -> None:
    assert {"multidict", "cffi", "pycparser"} <= set(re.findall(r"^([\w.-]+)==", select(), re.MULTILINE))


def test_every_version_of_the_lock_is_kept_with_its_hashes() -> None:
    entries = re.split(r"^(?=[\w.-]+==)", select(), flags=re.MULTILINE)[1:]
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    lock = (ROOT / "requirements.lock").read_text()
    assert len(re.findall(r"^numpy==", select(), re.MULTILINE)) == len(re.findall(r"^numpy==", lock, re.MULTILINE))
