"""Compiles the stubs of NVIDIA's libraries, once for their sources as they are."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent
LIBRARIES = {
    "libnvidia-ml.so.1": ("nvml.c", "nvml_mig.c", "stub.c", "json.c"),
    "libcuda.so.1": ("cuda.c", "stub.c", "json.c"),
    "libvgpu.so": ("limiter.c",),
}
FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Wno-format-truncation", "-Werror", "-fPIC", "-shared", "-pthread")


class BuildError(Exception):
    """The libraries cannot be compiled; the message says why."""


def ensure_libraries() -> Path:
    """Return the folder with the libraries, for LD_LIBRARY_PATH.

    Raises BuildError.
    """
    folder = _find_cache() / f"stubdriver-{_digest_sources()}"
    if not folder.exists():
        _build(folder)
    return folder


def _find_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuloom"


def _digest_sources() -> str:
    digest = hashlib.sha256(repr((LIBRARIES, FLAGS)).encode())
    for path in sorted(SOURCES.glob("*.[ch]")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _build(folder: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        raise BuildError("gcc is not installed")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "libraries"
        made.mkdir()
        for name, sources in LIBRARIES.items():
            paths = [str(SOURCES / each) for each in sources]
            command = [compiler, *FLAGS, f"-Wl,-soname,{name}", "-o", str(made / name), *paths]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BuildError(f"gcc cannot compile {name}: {done.stderr.strip()}")
        try:
            made.rename(folder)
        except OSError:
            # Another test run was faster.
            if not folder.exists():
                raise
