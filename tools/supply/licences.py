"""Writes docs/licences.md: the licences of what is in the images beside gpuloom, as the packages themselves say them.

Usage: .venv/bin/python tools/supply/licences.py. A test holds the page against the packages that are installed.
"""

import re
import runpy
from collections.abc import Iterator
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/licences.md"
PERMISSIVE = frozenset(
    {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "MIT", "MIT-0", "PSF-2.0", "Zlib"}
)
# What packages say that do not use SPDX's names yet. "BSD" alone does not say which of them: all are permissive.
_SPOKEN = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
}
UNKNOWN = "not told"
_HEAD = """\
# Licences

gpuloom is under [Apache-2.0](https://www.apache.org/licenses/LICENSE-2.0). Its images hold these packages beside it,
each with its licence in its `*.dist-info` folder below `/opt/gpuloom` (nvidia-ml-py at the head of its source), as the
packages say themselves; versions and hashes are in `requirements.lock`. Where the last column says *no*, a person has
to look before the images are handed on.

Not in the table: the base image, Python included, and HAMi-core's library (Apache-2.0,
github.com/Project-HAMi/HAMi-core). Nodes copy that from HAMi's own image, `docker.io/projecthami/hami`, which is made
on NVIDIA's CUDA image and has NVIDIA's licences too; gpuloom hands nothing of it on.

| Package | Licence | Permissive |
|---|---|---|
"""


def list_packages() -> list[str]:
    """Return the names of the packages in the images."""
    select = runpy.run_path(str(ROOT / "images/runtime_requirements.py"))["select_runtime"]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    return sorted(set(re.findall(r"^([\w.-]+)==", select(lock), re.MULTILINE)))


def read_licence(told: PackageMetadata) -> str:
    """Return a package's licence in SPDX's words, as far as it says one."""
    if expression := told.get("License-Expression"):
        return expression
    classifiers = [one.rpartition(" :: ")[2] for one in told.get_all("Classifier") or () if one.startswith("License")]
    words = classifiers or [(told.get("License") or "").strip()]
    return " OR ".join(_SPOKEN.get(word, word) for word in words) or UNKNOWN


def is_permissive(licence: str) -> bool:
    """Whether an expression asks for no more than that its text goes along, whichever of its choices is taken."""
    names = re.findall(r"[\w.+-]+", licence)
    known = PERMISSIVE | {"AND", "OR", "BSD"}
    return bool(names) and all(name in known for name in names)


def write_page() -> str:
    """Return the page. Raise PackageNotFoundError where a package of the lock is not installed."""
    return _HEAD + "".join(f"{line}\n" for line in _list_rows())


def _list_rows() -> Iterator[str]:
    for name in list_packages():
        try:
            licence = read_licence(metadata(name))
        except PackageNotFoundError:
            # It is for another platform or Python.
            continue
        yield f"| {name} | {licence} | {'yes' if is_permissive(licence) else '**no**'} |"


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
