"""A real node: kubelet, containerd and real containers, joined to a control plane and closed in on itself.

Needs root. Nothing of it is left behind but log files in its directory.
"""

import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from harness import binaries, cgroups, namespaces
from harness.controlplane import ControlPlane, find_free_ports
from harness.credentials import NODE_ADDRESS
from harness.images import write_busybox_image
from harness.objects import BUSYBOX_IMAGE
from harness.podnetwork import PodNetwork
from harness.processes import POLL_S, ChildProcess

TOOLS = ("containerd", "ctr", "runc", "busybox", "ip", "nsenter", "unshare", "setpriv")
CNI_PROGRAMS = Path("/usr/lib/cni")
LOG_TIMEOUT_S = 120
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
STATIC_PODS = "static-pods"


def describe_obstacle() -> str | None:
    """Say why no real node can run on this machine; None where one can."""
    if os.geteuid() != 0:
        return "a real node needs root"
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if not (CNI_PROGRAMS / "bridge").exists():
        missing.append(f"{CNI_PROGRAMS}/bridge")
    if missing:
        return f"a real node needs {', '.join(missing)} (see tools/debian-packages.txt)"
    if not namespaces.are_allowed():
        return "a real node needs namespaces of its own, and this machine does not let root make them"
    if not cgroups.is_supported():
        return "a real node needs cgroups of version 1, and this machine has version 2 alone"
    return None


class RealNode:
    """A node that runs pods, as a context manager: ready when entered, all of its processes gone when left.

    Attributes: `name`, `directory`, which processes inside the node see as well, at the same path, and `cgroup`, below
    which its pods are.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        directory: Path,
        *,
        name: str = "node-1",
        network: PodNetwork | None = None,
        feature_gates: Mapping[str, bool] | None = None,
    ):
        """Prepare a node. With `network`, which is below `directory` too, its kubelet is in the network of the pods.

        `feature_gates` are the kubelet's.
        """
        self.name = name
        self._network = network
        self._feature_gates = dict(feature_gates or {})
        self.directory = directory
        self.cgroup = f"gpuloom-test-{uuid4().hex[:8]}"
        self._control_plane = control_plane
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.callback(self._remove_data)
            stack.enter_context(cgroups.CgroupBranch(self.cgroup))
            if self._network is not None:
                self._namespaces = self._network.namespaces
                # The node's own end, because its processes must be gone before its cgroups can be.
                stack.callback(self._namespaces.end)
            else:
                self._namespaces = stack.enter_context(namespaces.Namespaces(self.directory))
            self._start_containerd(stack)
            self._start_kubelet(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def popen(self, name: str, command: Sequence[str | Path], *, env: Mapping[str, str] | None = None) -> ChildProcess:
        """Start a process that sees the node's files and processes and the machine's network; logs go to NAME.log.

        It ends with the node at the latest. `env` replaces the environment.
        """
        return self._stack.enter_context(self._namespaces.popen(name, command, env=env))

    def run(self, command: Sequence[str | Path], *, timeout_s: float = 60) -> str:
        """Run a command inside the node; return its standard output. Raise ProcessError."""
        return self._namespaces.run(command, timeout_s=timeout_s)

    def reach(self, path: str) -> Path:
        """Return where the outside finds the absolute `path` of the node, for example a socket of the kubelet."""
        return Path(f"/proc/{self._namespaces.pid}/root{path}")

    @property
    def static_pods(self) -> Path:
        """The folder whose files the kubelet runs as pods, whatever the API server says."""
        return self.directory / STATIC_PODS

    def import_image(self, archive: Path) -> None:
        """Give the node a container image from an archive below `directory`."""
        self.run(["ctr", "-n", "k8s.io", "images", "import", "--snapshotter", "native", archive], timeout_s=180)

    def container_log(
        self, pod_name: str, *, namespace: str = "default", container: str = "main", holding: str = "\n"
    ) -> str:
        """Return what the first run of a container wrote so far, once that holds a text. Raise TimeoutError.

        A container that is said to run may not have come to write yet, nor its runtime to open the log.
        """
        deadline_s = time.monotonic() + LOG_TIMEOUT_S
        while holding not in (written := self._read_log(f"{namespace}_{pod_name}_*/{container}/*.log")):
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"container {container} of {namespace}/{pod_name} on node {self.name} did not write {holding!r} "
                    f"in {LOG_TIMEOUT_S:.0f} s, but {written!r}"
                )
            time.sleep(POLL_S)
        return written

    def _read_log(self, pattern: str) -> str:
        # A run that failed before it began leaves a number without a log.
        runs = sorted((self.directory / "pod-logs").glob(pattern), key=lambda log: int(log.stem))
        return _join_log(runs[0].read_text()) if runs else ""

    def _start_containerd(self, stack: ExitStack) -> None:
        config = self.directory / "containerd.toml"
        config.write_text(_containerd_config(self.directory))
        network = self.directory / "cni"
        network.mkdir()
        (network / "10-pods.conflist").write_text(json.dumps(_pod_network(self.directory)))
        containerd = self._namespaces.popen("containerd", ["containerd", "--config", config], network=True)
        stack.enter_context(containerd)
        containerd.wait_until(self.reach(CONTAINERD_SOCKET).exists)
        archive = self.directory / "busybox.tar"
        write_busybox_image(archive)
        self.import_image(archive)

    def _start_kubelet(self, stack: ExitStack) -> None:
        (port,) = find_free_ports(1)
        self.static_pods.mkdir()
        config = self.directory / "kubelet.config"
        address = NODE_ADDRESS if self._network else "127.0.0.1"
        settings = _kubelet_config(self.directory, address, port=port, cgroup=self.cgroup)
        config.write_text(json.dumps({**settings, "featureGates": self._feature_gates}))
        kubelet = self._namespaces.popen(
            "kubelet",
            [
                binaries.find("kubelet"),
                f"--config={config}",
                f"--kubeconfig={self._control_plane.inner_kubeconfig}",
                f"--hostname-override={self.name}",
                # Without a network of pods the API server never comes here, and no loopback address is taken.
                *([f"--node-ip={NODE_ADDRESS}"] if self._network else []),
            ],
            network=self._network is not None,
        )
        stack.enter_context(kubelet)
        kubelet.wait_until(self._is_ready, what="a ready node")

    def _is_ready(self) -> bool:
        nodes = self._control_plane.api.get("/api/v1/nodes")["items"]
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for node in nodes
            if node["metadata"]["name"] == self.name
            for condition in node["status"].get("conditions", [])
        )

    def _remove_data(self) -> None:
        for name in ("containerd", "opt", "cni", "cni-data"):
            shutil.rmtree(self.directory / name, ignore_errors=True)
        (self.directory / "busybox.tar").unlink(missing_ok=True)


def _join_log(text: str) -> str:
    """Return the messages of a log in the runtime's format: time, stream, F or P (goes on in the next), message."""
    messages = []
    for line in text.splitlines():
        _time, _stream, part, message = line.split(" ", 3)
        messages.append(message + ("\n" if part == "F" else ""))
    return "".join(messages)


def _containerd_config(directory: Path) -> str:
    """Return containerd's configuration. A machine without CAP_SYS_RESOURCE needs restrict_oom_score_adj."""
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""
version = 2
root = "{directory}/containerd"
[grpc]
address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
path = "{directory}/opt"
[{cri}]
sandbox_image = "{BUSYBOX_IMAGE}"
restrict_oom_score_adj = true
disable_apparmor = true
[{cri}.containerd]
snapshotter = "native"
[{cri}.cni]
bin_dir = "{CNI_PROGRAMS}"
conf_dir = "{directory}/cni"
"""


def _pod_network(directory: Path) -> dict[str, Any]:
    """Return a network of pods that leads nowhere: its bridge lives in the node's own network namespace."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": "10.22.0.0/16"}]], "dataDir": f"{directory}/cni-data"}
    bridge = {"type": "bridge", "bridge": "pods", "isDefaultGateway": True, "ipam": addresses}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def _kubelet_config(directory: Path, address: str, *, port: int, cgroup: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "port": port,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "failCgroupV1": False,
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0.1%"},
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        "nodeStatusUpdateFrequency": "2s",
        "podLogsDir": f"{directory}/pod-logs",
        "resolvConf": "",
        "staticPodPath": f"{directory}/{STATIC_PODS}",
        "volumePluginDir": f"{directory}/volume-plugins",
    }
