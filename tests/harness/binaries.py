"""Builds Kubernetes' programs, helm and cert-manager for the tests, once per version, into a cache of the user.

The versions are pinned by go.mod in the folders of tools/controlplane; of Kubernetes there are several, and
GPULOOM_KUBERNETES says which is tested. `python -m harness.binaries` builds what is missing.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module that pins programs.

    packages           by program
    version_variable   set to the version of `source`
    assuming           packages whose variables say which Kubernetes a program assumes: that of the client it has
    """

    name: str
    directory: Path
    packages: Mapping[str, str]
    source: str
    version_variable: str
    assuming: tuple[str, ...] = ()


_MODULES = Path(__file__).resolve().parents[2] / "tools" / "controlplane"
_CHOICE = "GPULOOM_KUBERNETES"
_USUAL_KUBERNETES = "1.37"
_CLIENT = "k8s.io/client-go"


class BuildError(Exception):
    """A program could not be built; the message says which, and what to do."""


def choose_kubernetes(variables: Mapping[str, str]) -> Path:
    """Return the folder that pins the Kubernetes that GPULOOM_KUBERNETES asks for, such as 1.34. Raise BuildError."""
    minor = variables.get(_CHOICE) or _USUAL_KUBERNETES
    folders = {folder.name.removeprefix("kubernetes-"): folder for folder in _MODULES.glob("kubernetes-*")}
    if minor not in folders:
        raise BuildError(
            f"{_CHOICE} is {minor}, and the Kubernetes that can be tested are {', '.join(sorted(folders))}"
        )
    return folders[minor]


# A program of Kubernetes that does not know its own version cannot be parsed by clients.
KUBERNETES = Module(
    name="Kubernetes",
    directory=choose_kubernetes(os.environ),
    packages={
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kubelet": "k8s.io/kubernetes/cmd/kubelet",
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
        "kubeadm": "k8s.io/kubernetes/cmd/kubeadm",
        "etcd": "go.etcd.io/etcd/server/v3",
    },
    source="k8s.io/kubernetes",
    version_variable="k8s.io/component-base/version.gitVersion",
)
HELM = Module(
    name="helm",
    directory=_MODULES / "helm",
    packages={"helm": "helm.sh/helm/v3/cmd/helm"},
    source="helm.sh/helm/v3",
    version_variable="helm.sh/helm/v3/internal/version.version",
    # As helm's own Makefile does: without them it assumes Kubernetes 1.20, which the chart refuses.
    assuming=("helm.sh/helm/v3/pkg/chartutil", "helm.sh/helm/v3/pkg/lint/rules"),
)
CERT_MANAGER = Module(
    name="cert-manager",
    directory=_MODULES / "cert-manager",
    packages={
        "cert-manager-controller": "github.com/cert-manager/cert-manager/cmd/controller",
        "cert-manager-cainjector": "github.com/cert-manager/cert-manager/cmd/cainjector",
    },
    source="github.com/cert-manager/cert-manager",
    version_variable="github.com/cert-manager/cert-manager/pkg/util.AppVersion",
)
MODULES = (KUBERNETES, HELM, CERT_MANAGER)


def find(name: str) -> Path:
    """Return the program `name`, building it first where it is missing (minutes). Raise BuildError."""
    module = next(module for module in MODULES if name in module.packages)
    program = _cache_directory(module) / name
    if not program.exists():
        with _lock(program.parent):
            if not program.exists():
                _build(module, name, program)
    return program


def ensure_all(module: Module) -> None:
    """Build every program of a module that is missing. Raise BuildError."""
    for name in module.packages:
        find(name)


def read_version(module: Module) -> str:
    """Return the pinned version, such as v1.34.4. Raise BuildError if the module pins none."""
    return _read_pin(module, module.source)


def read_assumed_version(module: Module) -> str:
    """Return the Kubernetes that a program assumes of a cluster that it does not know, such as v1.34.0."""
    _, minor, _ = _read_pin(module, _CLIENT).split(".", 2)
    return f"v1.{minor}.0"


def _read_pin(module: Module, source: str) -> str:
    for line in (module.directory / "go.mod").read_text().splitlines():
        match line.removeprefix("require").split():
            case [found, version, *_] if found == source:
                return version
    raise BuildError(f"{module.directory / 'go.mod'} does not require {source}")


def find_source(module: Module) -> Path:
    """Return the folder with the files of a module's source, for what is not a program. Raise BuildError."""
    command = ["go", "mod", "download", "-json", module.source]
    try:
        told = subprocess.run(command, cwd=module.directory, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise BuildError(f"cannot find the source of {module.name}: {error}") from error
    return Path(json.loads(told.stdout)["Dir"])


def describe_obstacle(module: Module) -> str | None:
    """Say why a module's programs can neither be found nor built, or not be run here; None where they can."""
    if not shutil.which("setpriv"):
        return "setpriv (Linux, package util-linux) is not installed, and it ties the programs to the test run"
    missing = [name for name in module.packages if not (_cache_directory(module) / name).exists()]
    if not missing or shutil.which("go"):
        return None
    return f"Go is not installed, and it has to build {', '.join(missing)} once"


def _cache_directory(module: Module) -> Path:
    """Return the directory of the programs at the pinned versions, built in the same way."""
    directory = module.directory
    pins = (directory / "go.sum").read_bytes() + (directory / "go.mod").read_bytes()
    key = hashlib.sha256(pins + "".join(module.assuming).encode())
    return find_cache() / "controlplane" / key.hexdigest()[:16]


def find_cache() -> Path:
    """Return the user's directory for what tests build once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuloom"


def link_current(modules: Iterable[Module]) -> Path:
    """Link all programs at the pinned versions in one folder, whose name people can type; return it."""
    folder = find_cache() / "controlplane" / "current"
    folder.mkdir(parents=True, exist_ok=True)
    for module in modules:
        for name in module.packages:
            link = folder / name
            link.unlink(missing_ok=True)
            link.symlink_to(_cache_directory(module) / name)
    return folder


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Hold the build lock of `directory`; a second test run waits here for the first one's build."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _link(module: Module) -> str:
    """Return the linker's flags, which tell programs their versions."""
    told = {module.version_variable: read_version(module)}
    for package in module.assuming:
        major, minor, _ = read_assumed_version(module).removeprefix("v").split(".")
        told |= {f"{package}.k8sVersionMajor": major, f"{package}.k8sVersionMinor": minor}
    return " ".join(["-s -w", *(f"-X {variable}={value}" for variable, value in told.items())])


def _build(module: Module, name: str, program: Path) -> None:
    """Compile one program and put it in place in one step, so that a half-written one is never found."""
    print(f"building {name} (once; minutes) ...", flush=True)
    began_s = time.monotonic()
    unfinished = program.with_suffix(".unfinished")
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    try:
        build = subprocess.run(
            ["go", "build", "-ldflags", _link(module), "-o", str(unfinished), module.packages[name]],
            cwd=module.directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise BuildError(f"cannot build {name}: Go is not installed; install it or run without these tests") from None
    if build.returncode != 0:
        raise BuildError(f"cannot build {name} in {module.directory}; the Go compiler says:\n{build.stderr[-4000:]}")
    unfinished.replace(program)
    print(f"built {name} in {time.monotonic() - began_s:.0f} s: {program}", flush=True)


if __name__ == "__main__":
    for each in MODULES:
        ensure_all(each)
    print(f"all are in {link_current(MODULES)}")
