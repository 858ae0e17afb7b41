"""The provenance names what was made, and all that it was made of, by hashes (trust T-13)."""

import hashlib
import runpy
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

TOOL = runpy.run_path(str(Path(__file__).parents[3] / "tools/supply/provenance.py"))
NOW = datetime(2026, 5, 4, 8, tzinfo=UTC)
BASE = "python:3.14-slim@sha256:" + "0a" * 32


def git(root: Path, *words: str) -> str:
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.invalid"]
    return subprocess.run(["git", *who, *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a checkout with all inputs."""
    for name in TOOL["INPUTS"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "all")
    return tmp_path


def make(root: Path, **facts: Any) -> dict[str, Any]:
    made = root / ".git" / "made.whl"
    made.write_text("made")
    statement: dict[str, Any] = TOOL["make_statement"]([made], now=NOW, root=root, **facts)
    return statement


def hash_text(text: str) -> dict[str, str]:
    return {"sha256": hashlib.sha256(text.encode()).hexdigest()}


def test_what_was_made_is_named_with_its_hash(root: Path) -> None:
    statement = make(root)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["subject"] == [{"name": "made.whl", "digest": hash_text("made")}]


def test_commit_and_inputs_are_named_with_their_hashes(root: Path) -> None:
    found = make(root)["predicate"]["buildDefinition"]["resolvedDependencies"]
    digests = {one["uri"]: one["digest"] for one in found}
    assert digests["git:gpuloom"] == {"gitCommit": git(root, "rev-parse", "HEAD")}
    assert digests["file:requirements.lock"] == hash_text("requirements.lock")
    assert set(digests) == {"git:gpuloom", *(f"file:{name}" for name in TOOL["INPUTS"])}


def test_base_and_images_are_named_by_their_digests(root: Path) -> None:
    statement = make(root, base=BASE, images=["registry.example/gpuloom/node@sha256:" + "1b" * 32])
    assert {"uri": "python:3.14-slim", "digest": {"sha256": "0a" * 32}} in statement["predicate"]["buildDefinition"][
        "resolvedDependencies"
    ]
    assert statement["subject"][1] == {"name": "registry.example/gpuloom/node", "digest": {"sha256": "1b" * 32}}


@pytest.mark.parametrize("facts", [{"base": "python:3.14-slim"}, {"images": ["gpuloom/node:0.1.0"]}])
def test_an_image_without_digest_is_refused(root: Path, facts: dict[str, Any]) -> None:
    with pytest.raises(TOOL["ProvenanceError"], match="has no digest"):
        make(root, **facts)


def test_uncommitted_changes_are_told(root: Path) -> None:
    def is_told() -> bool:
        told: bool = make(root)["predicate"]["buildDefinition"]["internalParameters"]["uncommittedChanges"]
        return told

    assert not is_told()
    (root / "pyproject.toml").write_text("changed")
    assert is_told()


def test_without_a_checkout_nothing_is_claimed(tmp_path: Path) -> None:
    with pytest.raises(TOOL["ProvenanceError"], match="the commit is not known"):
        TOOL["make_statement"]([], now=NOW, root=tmp_path)
