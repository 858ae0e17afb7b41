"""A Docker engine of a test's own: its data, its socket and its mounts, gone when it ends. Needs root."""

import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Self
from uuid import uuid4

from harness import cgroups, namespaces
from harness.builder import copy_pip_files, find_base, run

TOOLS = ("dockerd", "containerd", "runc")
BARE = "localhost/gpuloom-bare:1"
BASE_FILE = f"FROM {BARE}\nCOPY / /\n"
# The engine writes a key to a fixed place.
START = 'mount -t tmpfs key /etc/docker && exec dockerd "$@"'


def describe_obstacle() -> str | None:
    """Say why no Docker engine can run on this machine; None where one can."""
    if os.geteuid() != 0:
        return "a Docker engine needs root"
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if not missing and not find_client().exists():
        missing = [str(find_client())]
    if missing:
        return f"a Docker engine needs {', '.join(missing)} (see tools/debian-packages.txt)"
    if not namespaces.are_allowed():
        return "a Docker engine of a test's own needs namespaces, and this machine does not let root make them"
    if not cgroups.is_supported():
        return "a Docker engine of a test's own needs cgroups of version 1, and this machine has version 2 alone"
    return None


def find_client() -> Path:
    """Return the client that came with the engine: others may be there that cannot build with BuildKit."""
    engine = Path(shutil.which("dockerd") or "/usr/sbin/dockerd").resolve()
    return engine.parents[1] / "bin" / "docker"


class DockerEngine:
    """An engine that keeps everything below `directory`, as a context manager. Containers have no network.

    Attributes: `variables`, what a client finds it by; it builds with BuildKit, as clients of today do.
    """

    def __init__(self, directory: Path):
        self._directory = directory
        self._stack = ExitStack()
        self._address = f"unix://{directory}/docker.sock"
        self.variables = {"DOCKER_HOST": self._address, "DOCKER_BUILDKIT": "1"}

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True)
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self._directory / "data", ignore_errors=True)
            branch = stack.enter_context(cgroups.CgroupBranch(f"gpuloom-test-{uuid4().hex[:8]}"))
            place = stack.enter_context(namespaces.Namespaces(self._directory))
            command = ["sh", "-c", START, "dockerd", *self._list_flags(branch.name)]
            engine = stack.enter_context(place.popen("dockerd", command))
            engine.wait_until(lambda: "API listen on" in engine.log.read_text())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, *arguments: str | Path) -> str:
        """Run docker; return what it prints. Raise BuildError."""
        return run([str(find_client()), *map(str, arguments)], variables=self.variables)

    def make_base(self, name: str) -> None:
        """Give the engine the base image of the tests, in which pip trusts and uses what it does out here."""
        self.run("import", find_base(), BARE)
        context = self._directory / "base"
        copy_pip_files(context)
        (context.with_suffix(".Dockerfile")).write_text(BASE_FILE)
        self.run("build", f"--file={context.with_suffix('.Dockerfile')}", f"--tag={name}", context)

    def _list_flags(self, cgroup: str) -> list[str]:
        """Return flags that keep the engine away from other engines and the machine's networks; its /run is private."""
        places = (f"--data-root={self._directory}/data", f"--host={self._address}", f"--cgroup-parent=/{cgroup}")
        return [*places, "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"]
