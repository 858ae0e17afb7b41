"""Prints how a wheel and the images came about: an in-toto statement with SLSA's provenance, unsigned.

Usage: .venv/bin/python tools/supply/provenance.py FILE... [--base IMAGE@sha256:...] [--image NAME@sha256:...]
FILEs are what was made; BASE and IMAGE are known to whoever builds and pushes the images.
"""

import argparse
import hashlib
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
INPUTS = (
    "images/Dockerfile",
    "images/runtime_requirements.py",
    "locks/build.lock",
    "pyproject.toml",
    "requirements.lock",
)
"""What decides about the images beside the sources; the commit has the hash of all of these too."""

BUILD_TYPE = "urn:gpuloom:images:1"
BUILDER = "urn:gpuloom:make-sbom"


class ProvenanceError(Exception):
    """The provenance cannot be told; the message says what is missing."""


def make_statement(
    files: Sequence[Path], *, base: str = "", images: Sequence[str] = (), now: datetime, root: Path = ROOT
) -> dict[str, Any]:
    """Return the statement. Raise ProvenanceError outside of a git checkout, or for an image without digest."""
    commit = _ask_git(root, "rev-parse", "HEAD")
    subjects = [{"name": file.name, "digest": {"sha256": _hash(file)}} for file in files]
    subjects += [_name_image(image, "name") for image in images]
    inputs = [{"uri": f"file:{name}", "digest": {"sha256": _hash(root / name)}} for name in INPUTS]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"base": base or None},
                "internalParameters": {"uncommittedChanges": bool(_ask_git(root, "status", "--porcelain"))},
                "resolvedDependencies": [
                    {"uri": "git:gpuloom", "digest": {"gitCommit": commit}},
                    *([_name_image(base, "uri")] if base else []),
                    *inputs,
                ],
            },
            "runDetails": {
                "builder": {"id": BUILDER, "version": _list_versions()},
                "metadata": {"finishedOn": now.isoformat(timespec="seconds").replace("+00:00", "Z")},
            },
        },
    }


def _name_image(image: str, key: str) -> dict[str, Any]:
    name, _, digest = image.partition("@sha256:")
    if not name or len(digest) != 64:
        raise ProvenanceError(f"the image {image!r} has no digest: name it as NAME@sha256:...")
    return {key: name, "digest": {"sha256": digest}}


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _ask_git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProvenanceError(f"the commit is not known: {done.stderr.strip()}")
    return done.stdout.strip()


def _list_versions() -> dict[str, str]:
    return {"python": platform.python_version(), "hatchling": version("hatchling"), "uv": version("uv")}


def main() -> int:
    """Print the statement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--base", default="")
    parser.add_argument("--image", action="append", default=[])
    asked = parser.parse_args()
    try:
        statement = make_statement(asked.files, base=asked.base, images=asked.image, now=datetime.now(UTC))
    except ProvenanceError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(statement, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
