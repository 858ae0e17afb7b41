"""A place of its own for one node: private mounts, processes and network, all gone at once when it ends.

What runs inside may write to the machine's fixed paths (/var/lib/kubelet, /usr/local/vgpu, /tmp/vgpulock, /run ...):
the writes land in memory. Only the node's directory is shared with the outside.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from harness.credentials import NODE_ADDRESS, SERVICE_ADDRESS
from harness.processes import ChildProcess, ProcessError, clean_environment

# The kubelet sets these for the whole machine; it leaves alone what has the wanted value already.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}

SET_UP = r"""
set -e
directory=$1; service_address=$2; node_address=$3; shift 3
mount -t tmpfs -o mode=755 node /run
mkdir /run/shared && mount --bind "$directory" /run/shared
for place in /var /usr/local /tmp; do
    mkdir -p "/run/written$place" "/run/work$place"
    chmod --reference="$place" "/run/written$place"
    mount -t overlay node -o "lowerdir=$place,upperdir=/run/written$place,workdir=/run/work$place" "$place"
done
mount --bind /run/shared "$directory"
mkdir /run/sysctl
for setting in "$@"; do
    file=/run/sysctl/$(echo "${setting%%=*}" | tr / .)
    echo "${setting#*=}" > "$file"
    mount --bind "$file" "/proc/sys/${setting%%=*}"
done
ip link set lo up
ip address add "$service_address/32" dev lo
ip address add "$node_address/32" dev lo
touch "$directory/namespaces-ready"
exec env --ignore-signal=CHLD sleep infinity
"""


ISOLATE = ("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child=KILL", "--mount-proc", "--")


def are_allowed() -> bool:
    """Say whether this machine lets us make namespaces: root in a container often may not."""
    return subprocess.run([*ISOLATE, "true"], check=False, capture_output=True).returncode == 0


class Namespaces:
    """The namespaces of one node as a context manager; `pid` is the process that keeps them alive."""

    def __init__(self, directory: Path):
        """Prepare namespaces that share the existing `directory` with the outside."""
        self._directory = directory
        self.pid = 0

    def __enter__(self) -> Self:
        settings = [f"{name}={value}" for name, value in KERNEL_SETTINGS.items() if Path("/proc/sys", name).exists()]
        addresses = (SERVICE_ADDRESS, NODE_ADDRESS)
        command: list[str | Path] = [*ISOLATE, "sh", "-c", SET_UP, "node", self._directory, *addresses, *settings]
        ready = self._directory / "namespaces-ready"
        ready.unlink(missing_ok=True)
        self._keeper = ChildProcess("namespaces", command, log=self._directory / "namespaces.log")
        try:
            self._keeper.wait_until(ready.exists, timeout_s=10)
        except ProcessError:
            self._keeper.stop(grace_s=0)
            raise
        children = Path(f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children").read_text()
        self.pid = int(children.split()[0])
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End everything inside; ending twice does nothing."""
        if self._keeper.exit_status is None:
            # Killing the first process of the namespaces kills the others; it is gone only when all of them are.
            os.kill(self.pid, signal.SIGKILL)
            self._keeper.wait(timeout_s=10)

    def popen(
        self, name: str, command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, network: bool = False
    ) -> ChildProcess:
        """Start `command` inside, logging to NAME.log; with `network` it sees the pods' network, else the machine's."""
        wrapped = self._wrap(command, network=network)
        return ChildProcess(name, wrapped, log=self._directory / f"{name}.log", env=env)

    def run(self, command: Sequence[str | Path], *, timeout_s: float = 60) -> str:
        """Run `command` inside to its end; return its standard output. Raise ProcessError."""
        done = subprocess.run(
            self._wrap(command, network=False),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=clean_environment(),
            check=False,
        )
        if done.returncode != 0:
            raise ProcessError(
                f"{command[0]} inside the node ended with status {done.returncode}: {done.stderr[-4000:]}"
            )
        return done.stdout

    def _wrap(self, command: Sequence[str | Path], *, network: bool) -> list[str]:
        """Return the command line that enters the namespaces first.

        nsenter stays outside as the parent. It ignores SIGTERM, so that it ends with the command and not before it.
        """
        enter = ["env", "--ignore-signal=TERM", "nsenter", f"--target={self.pid}", "--mount", "--pid"]
        here = ["--net"] if network else []
        return [
            *enter,
            *here,
            "--",
            "env",
            "--default-signal=TERM",
            "setpriv",
            "--pdeathsig=KILL",
            "--",
            *map(str, command),
        ]
