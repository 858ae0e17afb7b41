"""A network in which pods and the API server reach each other, as on a cluster; tests reach it through a relay."""

import sys
from collections.abc import Sequence
from pathlib import Path

from harness.namespaces import Namespaces
from harness.processes import ChildProcess

API_PORT = 443
RELAY = Path(__file__).with_name("relay.py")


class PodNetwork:
    """The network namespace of a node's `namespaces`, for processes that are no part of the node."""

    def __init__(self, namespaces: Namespaces):
        self.namespaces = namespaces

    def enter(self, command: Sequence[str | Path]) -> list[str]:
        """Return the command line that runs `command` in this network, with the files of the machine."""
        return ["nsenter", f"--target={self.namespaces.pid}", "--net", "--", *map(str, command)]

    def open_relay(self, port: int, far_port: int, *, log: Path) -> ChildProcess:
        """Start what leads from the machine's loopback `port` to `far_port` of the loopback in here."""
        namespace = f"/proc/{self.namespaces.pid}/ns/net"
        command: list[str | Path] = [sys.executable, RELAY, str(port), namespace, "127.0.0.1", str(far_port)]
        return ChildProcess("relay", command, log=log)
