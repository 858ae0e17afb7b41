"""gpuloom's own processes, started as a user starts them: scheduler beside kube-scheduler, plugin on the node."""

import ssl
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import trustme

from harness.cluster import Cluster
from harness.controlplane import ControlPlane, find_free_ports
from harness.installation import SCHEDULER_NAME
from harness.processes import ChildProcess

GPULOOM = Path(sys.executable).with_name("gpuloom")
PLACE_LIBRARY = """
mkdir -p /usr/local/vgpu
echo placeholder > /usr/local/vgpu/libvgpu.so
echo /usr/local/vgpu/libvgpu.so > /usr/local/vgpu/ld.so.preload
"""


def start_scheduler(
    stack: ExitStack,
    control_plane: ControlPlane,
    directory: Path,
    authority: trustme.CA,
    *flags: str,
    kubeconfig: Path | None = None,
) -> str:
    """Start `gpuloom scheduler` with a certificate of `authority` until the stack closes; return its URL when ready.

    `kubeconfig` is its way to the API server, the admin's if none is given.
    """
    (port,) = find_free_ports(1)
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = directory / "tls.crt", directory / "tls.key"
    certificate.write_bytes(issued.cert_chain_pems[0].bytes())
    key.write_bytes(issued.private_key_pem.bytes())
    command: list[str | Path] = [
        GPULOOM,
        "scheduler",
        f"--http_bind=127.0.0.1:{port}",
        f"--scheduler-name={SCHEDULER_NAME}",
        "--metrics-bind-address=127.0.0.1:0",
        f"--cert_file={certificate}",
        f"--key_file={key}",
        f"--kubeconfig={kubeconfig or control_plane.kubeconfig}",
        *flags,
    ]
    process = stack.enter_context(ChildProcess("gpuloom scheduler", command, log=directory / "scheduler.log"))
    url = f"https://127.0.0.1:{port}"
    process.wait_until(lambda: is_ready(url, authority.cert_pem.bytes().decode()))
    return url


def is_ready(url: str, ca_pem: str) -> bool:
    """Say whether a scheduler takes requests, under a certificate of this authority."""
    tls = ssl.create_default_context(cadata=ca_pem)
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=30, context=tls) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


class Installation:
    """gpuloom on a real cluster, as a context manager: the webhook registered, pods with cards served when entered.

    Attributes: `url` of its scheduler.
    """

    def __init__(self, cluster: Cluster, directory: Path, *, machine: str):
        """Prepare an installation with files in `directory`; `machine` describes the node's cards (TOML)."""
        self._cluster = cluster
        self._directory = directory
        self._machine = machine
        self._stack = ExitStack()
        self._authority = trustme.CA()

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            self.url = url = start_scheduler(stack, self._cluster.control_plane, self._directory, self._authority)
            ca_pem = self._authority.cert_pem.bytes()
            self._cluster.install_webhook(f"{url}/webhook", ca_pem=ca_pem)
            self._cluster.start_scheduler(url)
            self._start_device_plugin()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start_device_plugin(self) -> None:
        node = self._cluster.node
        cards = node.directory / "cards.toml"
        cards.write_text(self._machine)
        node.run(["sh", "-c", PLACE_LIBRARY])
        command: list[str | Path] = [
            GPULOOM,
            "device-plugin",
            f"--node-name={node.name}",
            f"--cards={cards}",
            f"--kubeconfig={self._cluster.control_plane.kubeconfig}",
        ]
        process = node.popen("device-plugin", command)
        process.wait_until(self._offers_cards, what="offering its cards")

    def _offers_cards(self) -> bool:
        node = self._cluster.control_plane.api.get(f"/api/v1/nodes/{self._cluster.node.name}")
        registered = "hami.io/node-nvidia-register" in node["metadata"].get("annotations", {})
        return registered and int(node["status"]["allocatable"].get("nvidia.com/gpu", "0")) > 0
