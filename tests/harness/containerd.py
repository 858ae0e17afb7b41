"""A containerd of its own, in namespaces of its own, for what speaks to it without a kubelet."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.namespaces import Namespaces
from harness.node import CONTAINERD_SOCKET
from harness.processes import ChildProcess


class RealContainerd:
    """Runs while its block does; `directory` is shared with what runs beside it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._namespaces = stack.enter_context(Namespaces(self._directory))
            config = self._directory / "containerd.toml"
            config.write_text(_write_config(self._directory))
            containerd = stack.enter_context(
                self._namespaces.popen("containerd", ["containerd", "--config", config], network=True)
            )
            containerd.wait_until(Path(f"/proc/{self._namespaces.pid}/root{CONTAINERD_SOCKET}").exists)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start(self, name: str, command: Sequence[str], variables: Mapping[str, str]) -> ChildProcess:
        """Start a program beside containerd: what it prints goes to NAME.out, what it complains about to NAME.log.

        SIGTERM to its process group ends it as by hand.
        """
        into = ["sh", "-c", 'output=$1; shift; exec "$@" > "$output"', "sh", str(self._directory / f"{name}.out")]
        return self._namespaces.popen(name, [*into, *command], env=variables)

    def list_leftovers(self, namespace: str) -> list[str]:
        """Return what is left of a containerd's namespace, and below /run by its name."""
        namespaces = self._namespaces.run(["ctr", "namespaces", "list", "--quiet"]).split()
        files = self._namespaces.run(["find", "/run", "-maxdepth", "1", "-name", f"{namespace}*"]).split()
        return [*(name for name in namespaces if name == namespace), *files]


def _write_config(directory: Path) -> str:
    return f"""
version = 2
root = "{directory}/containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
path = "{directory}/opt"
"""
