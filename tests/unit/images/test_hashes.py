"""Nothing comes into the images, or into a checkout's environment, without a hash that a lock names (trust T-13)."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LOCKS = [ROOT / "requirements.lock", *sorted((ROOT / "locks").iterdir())]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def read_versions(lock: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", lock.read_text(), re.MULTILINE):
        found.setdefault(name, set()).add(version)
    return found


def list_installs(name: str) -> list[str]:
    """Return the commands of a file that have pip or uv install or build something."""
    joined = re.sub(r"\\\n\s*", "", (ROOT / name).read_text())
    parts = re.split(r"&&|\|\||\n", joined)
    return [part.strip() for part in parts if re.search(r"pip (install|wheel|sync)\b|\$INSTALL\b", part)]


@pytest.mark.parametrize("name", ["images/Dockerfile", "Makefile"])
def test_whatever_is_installed_is_asked_for_its_hash_or_comes_from_here(name: str) -> None:
    commands = list_installs(name)
    assert len(commands) >= 3
    bare = [one for one in commands if "--require-hashes" not in one and not re.search(r"--no-index|--offline", one)]
    assert bare == []


@pytest.mark.parametrize("name", ["images/Dockerfile", "Makefile"])
def test_gpuloom_is_built_by_the_backend_that_is_installed(name: str) -> None:
    built = [one for one in list_installs(name) if re.search(r" \.$", one)]
    assert built
    assert [one for one in built if "--no-build-isolation" not in one or "--no-deps" not in one] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_each_entry_of_a_lock_has_hashes(lock: Path) -> None:
    entries = re.split(r"^(?=[\w.-]+==)", lock.read_text(), flags=re.MULTILINE)[1:]
    assert entries
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert not re.search(r"https?://", lock.read_text())


def test_each_group_of_tools_has_a_lock_and_each_lock_a_group() -> None:
    groups = set(PROJECT["dependency-groups"]) - {"dev"}
    assert {lock.stem for lock in LOCKS[1:]} == groups


def test_the_lock_of_the_build_has_what_the_project_says_it_is_built_with() -> None:
    assert set(PROJECT["build-system"]["requires"]) <= set(PROJECT["dependency-groups"]["build"])
    assert "hatchling" in read_versions(ROOT / "locks/build.lock")


@pytest.mark.parametrize("name", ["build", "uv"])
def test_what_is_installed_beside_the_project_has_its_versions(name: str) -> None:
    common, other = read_versions(ROOT / "requirements.lock"), read_versions(ROOT / "locks" / f"{name}.lock")
    assert {name: other[name] for name in other.keys() & common} == {
        name: common[name] for name in other.keys() & common
    }
