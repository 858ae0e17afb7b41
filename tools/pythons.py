"""Runs the unit tests on every Python that gpuloom supports and this machine has, and says which it has not.

Usage: .venv/bin/python tools/pythons.py [arguments of pytest]. Environments are kept in .venv, one for each Python.
Ends with 1 when tests failed, with 0 otherwise: a Python that is missing is told in the last lines.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
TESTS = ("tests/unit", "tests/oracle", "-m", "not long")
_UV = ROOT / ".venv/bin/uv"
_LOCKS = ("requirements.lock", "locks/uv.lock", "locks/build.lock")


def find_interpreter(version: str) -> Path | None:
    """Return an interpreter that starts and is of this version, of the PATH or of pyenv; None when there is none."""
    return next((path for path in _list_candidates(version) if _tell_version(path) == version), None)


def _list_candidates(version: str) -> Iterator[Path]:
    for folder in os.get_exec_path():
        if found := shutil.which(f"python{version}", path=folder):
            yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"), reverse=True)


def _tell_version(path: Path) -> str:
    """Return the version of an interpreter, nothing when it does not start, as pyenv's stand-ins do."""
    command = [str(path), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def prepare(version: str, interpreter: Path) -> Path:
    """Make the environment of one Python, as the locks say; return its interpreter."""
    place = ROOT / ".venv" / f"python{version}"
    own = place / "bin/python"
    if not own.exists():
        _call(_UV, "venv", "--quiet", "--python", interpreter, place)
    _call(_UV, "pip", "sync", "--quiet", "--require-hashes", "--python", own, *_LOCKS)
    _call(
        _UV, "pip", "install", "--quiet", "--offline", "--no-deps", "--no-build-isolation", "--python", own, "-e", ROOT
    )
    return own


def _call(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], cwd=ROOT, check=True)


def main(more: list[str]) -> int:
    """Run the tests on each interpreter; say how each ended."""
    told, failed = [], False
    for version in SUPPORTED:
        interpreter = find_interpreter(version)
        if interpreter is None:
            told.append(f"Python {version}: MISSING on this machine, nothing was run")
            continue
        print(f"Python {version}: {interpreter}", flush=True)
        own = prepare(version, interpreter)
        done = subprocess.run(
            [str(own), "-m", "pytest", *TESTS, "-q", "-p", "no:cacheprovider", *more], cwd=ROOT, check=False
        )
        failed = failed or done.returncode != 0
        told.append(f"Python {version}: {'passed' if done.returncode == 0 else 'FAILED'}")
    print("\n".join(told))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
