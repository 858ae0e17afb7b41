"""Builds the Kubernetes programs that tests run, once per version, into a cache directory of the user.

The versions are pinned by tools/controlplane/kubernetes/go.mod. `python -m harness.binaries` builds what is missing.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODULE = Path(__file__).resolve().parents[2] / "tools" / "controlplane" / "kubernetes"
PACKAGES = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "etcd": "go.etcd.io/etcd/server/v3",
}
CLIENT_PARSED_VERSION = "k8s.io/component-base/version.gitVersion"


class BuildError(Exception):
    """A program could not be built; the message says which, and what to do."""


def find(name: str) -> Path:
    """Return the program `name`, building it first where it is missing (minutes). Raise BuildError."""
    program = _cache_directory() / name
    if not program.exists():
        with _lock(program.parent):
            if not program.exists():
                _build(name, program)
    return program


def ensure_all() -> None:
    """Build every program that is missing. Raise BuildError."""
    for name in PACKAGES:
        find(name)


def describe_obstacle() -> str | None:
    """Say why the programs can neither be found nor built, or not be run here; None where they can."""
    if not shutil.which("setpriv"):
        return "setpriv (Linux, package util-linux) is not installed, and it ties the programs to the test run"
    missing = [name for name in PACKAGES if not (_cache_directory() / name).exists()]
    if not missing or shutil.which("go"):
        return None
    return f"Go is not installed, and it has to build {', '.join(missing)} once"


def _cache_directory() -> Path:
    """Return the directory of the programs at the pinned versions."""
    pins = hashlib.sha256((MODULE / "go.sum").read_bytes() + (MODULE / "go.mod").read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "gpuloom" / "controlplane" / pins.hexdigest()[:16]


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Hold the build lock of `directory`; a second test run waits here for the first one's build."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(name: str, program: Path) -> None:
    """Compile one program and put it in place in one step, so that a half-written one is never found."""
    print(f"building {name} (once; minutes) ...", flush=True)
    began_s = time.monotonic()
    unfinished = program.with_suffix(".unfinished")
    version = _kubernetes_version()
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    linking = f"-s -w -X {CLIENT_PARSED_VERSION}={version}"
    try:
        build = subprocess.run(
            ["go", "build", "-ldflags", linking, "-o", str(unfinished), PACKAGES[name]],
            cwd=MODULE,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise BuildError(f"cannot build {name}: Go is not installed; install it or run without these tests") from None
    if build.returncode != 0:
        raise BuildError(f"cannot build {name} in {MODULE}; the Go compiler says:\n{build.stderr[-4000:]}")
    unfinished.replace(program)
    print(f"built {name} in {time.monotonic() - began_s:.0f} s: {program}", flush=True)


def _kubernetes_version() -> str:
    """Read the pinned version; a program that does not know its own cannot be parsed by clients."""
    for line in (MODULE / "go.mod").read_text().splitlines():
        match line.split():
            case ["k8s.io/kubernetes", version]:
                return version
    raise BuildError(f"{MODULE / 'go.mod'} does not require k8s.io/kubernetes")


if __name__ == "__main__":
    ensure_all()
