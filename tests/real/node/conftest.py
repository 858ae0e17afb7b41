"""A real cluster of one node whose cards a test may make sick, and whose kubelet and plugin it may restart."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuloom.node.nvml import Gpu
from gpuloom.node.simulated import SimulatedMachine, parse_machine
from harness.cluster import Cluster
from harness.gpuloom import GPULOOM, PLACE_LIBRARY, Installation
from harness.objects import BUSYBOX_IMAGE, PODS, make_pod
from harness.processes import LOG_TAIL_CHARACTERS, ChildProcess

CARDS = '[[cards]]\nmodel = "Tesla M60"\nmemory_mib = 8192\ncount = 2\n'
HEALTHY_DEVICES = 20
RESOURCE = "nvidia.com/gpu"
NODE_CONFIG = "node-config.json"
SHOW_SHARE = "env; sleep 3600"


def create_plugin_pod(cluster: Cluster) -> str:
    """Let the plugin be in a pod, as far as the scheduler can see, so that the node needs no lock; return its UID."""
    body = make_pod("plugin", node=cluster.node.name)
    body["metadata"]["labels"] = {"app.kubernetes.io/component": "hami-device-plugin"}
    return str(cluster.control_plane.api.create(PODS, body)["metadata"]["uid"])


class Site(Installation):
    """gpuloom on a real cluster; the plugin's cards are described by a file that it follows."""

    def __init__(
        self, cluster: Cluster, directory: Any, *, cards: str = CARDS, devices: int = HEALTHY_DEVICES, flags: Any = ()
    ):
        """Prepare the installation; its plugin has more `flags` and is started when it offers so many `devices`."""
        super().__init__(cluster, directory, machine=cards)
        self.node = cluster.node
        self.control_plane = cluster.control_plane
        self.api = cluster.control_plane.api
        self.audit_log = cluster.control_plane.audit_log
        self.starts = 0
        self.devices = devices
        self.flags = flags

    def start_plugin(self) -> None:
        self.starts += 1
        command = [
            GPULOOM,
            "device-plugin",
            f"--node-name={self.node.name}",
            f"--cards={self.cards}",
            f"--node-config-file={self.node_config}",
            f"--kubeconfig={self._cluster.control_plane.kubeconfig}",
            "--health-recovery-s=1",
            *self.flags,
        ]
        self.plugin = self.node.popen(f"device-plugin-{self.starts}", command)
        self.plugin.wait_until(lambda: self.allocatable() == self.devices, what="offering its cards")

    def restart_kubelet(self) -> ChildProcess:
        """End the node's kubelet and start it again as it was started; its containers go on.

        The node's devices are then those that the new kubelet knows of.
        """
        pid = self.node.run(["pidof", "kubelet"]).strip()
        command = self.node.run(["cat", f"/proc/{pid}/cmdline"]).split("\0")[:-1]
        before = self.node.run(["stat", "-c", "%i %y", self.kubelet_socket])
        self.node.run(["sh", "-c", f"kill {pid} && while kill -0 {pid}; do sleep 0.05; done 2>/dev/null"])
        self._forget_devices()
        kubelet = self.node.popen("kubelet-again", command)
        kubelet.wait_until(
            lambda: self.node.run(["sh", "-c", f"stat -c '%i %y' {self.kubelet_socket} || true"]) not in {before, ""},
            what="taking registrations",
        )
        return kubelet

    def _forget_devices(self) -> None:
        """Drop what the last kubelet said: a pod that starts on its word alone is refused by the next one."""
        nothing = {"capacity": {RESOURCE: None}, "allocatable": {RESOURCE: None}}
        self.api.merge(f"/api/v1/nodes/{self.node.name}/status", {"status": nothing})

    kubelet_socket = "/var/lib/kubelet/device-plugins/kubelet.sock"

    @property
    def cards(self) -> Any:
        return self.node.directory / "cards.toml"

    @property
    def node_config(self) -> Path:
        """What this node does differently; nobody wrote it yet."""
        return self.node.directory / NODE_CONFIG

    @property
    def gpus(self) -> Sequence[Gpu]:
        """The cards of the plugin, in the order of their indexes."""
        return SimulatedMachine(self.node.name, parse_machine(self._machine.encode(), source="cards.toml")).gpus

    @property
    def logs(self) -> Sequence[Path]:
        """The logs of gpuloom's processes and of the node's."""
        return [*sorted(self.node.directory.glob("*.log")), *sorted(self._directory.glob("*.log"))]

    def allocatable(self) -> int:
        node = self.api.get(f"/api/v1/nodes/{self.node.name}")
        return int(node["status"]["allocatable"].get(RESOURCE, "0"))

    def wait_for_devices(self, count: int) -> None:
        self.api.wait_for(
            f"/api/v1/nodes/{self.node.name}",
            lambda node: node["status"]["allocatable"].get(RESOURCE) == str(count),
        )

    def describe_cards(self, faults: str = "") -> None:
        self.cards.write_text(self._machine + faults)

    def _start_device_plugin(self) -> None:
        self.describe_cards()
        self.node.run(["sh", "-c", PLACE_LIBRARY])
        self.start_plugin()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the ends of the site's logs to what is told of a test that failed: its objects alone seldom say why."""
    report = yield
    site = getattr(item, "funcargs", {}).get("site")
    if report.failed and isinstance(site, Site):
        ends = ((log.name, log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]) for log in site.logs)
        report.sections += [(f"end of {name}", end) for name, end in ends]
    return report


@pytest.fixture(scope="module")
def site(real_node_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with (
        Cluster(tmp_path_factory.mktemp("cluster")) as cluster,
        Site(cluster, tmp_path_factory.mktemp("gpuloom")) as site,
    ):
        yield site


@pytest.fixture
def start(site: Site) -> Iterator[Callable[..., None]]:
    """Create pods whose containers ask for so many MiB of a card each; they are deleted after the test."""
    names = []

    def start(
        name: str,
        memory_mib: Sequence[int],
        *,
        init_memory_mib: Sequence[int] = (),
        command: str = SHOW_SHARE,
        restart: str = "Never",
    ) -> None:
        names.append(name)
        body = {
            "metadata": {"name": name},
            "spec": {
                "containers": [_container(f"c{place}", size, command=command) for place, size in enumerate(memory_mib)],
                "initContainers": [
                    _container(f"i{place}", size, command="env") for place, size in enumerate(init_memory_mib)
                ],
                "restartPolicy": restart,
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False,
            },
        }
        site.api.create(PODS, body)

    yield start
    for name in names:
        if site.api.answers(f"{PODS}/{name}"):
            site.api.delete(f"{PODS}/{name}")
    site.api.wait_for(PODS, lambda found: not {pod["metadata"]["name"] for pod in found["items"]} & {*names})


def _container(name: str, memory_mib: int, *, command: str) -> Mapping[str, Any]:
    return {
        "name": name,
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
        "resources": {"limits": {RESOURCE: "1", "nvidia.com/gpumem": str(memory_mib)}},
    }
