"""The harness's real node runs real containers, is closed in on itself, and vanishes without a trace."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.controlplane import ControlPlane
from harness.node import RealNode
from harness.objects import PODS, make_pod
from harness.processes import ProcessError
from harness.traces import find_mounts, find_processes

pytestmark = [pytest.mark.control_plane, pytest.mark.real_node]

FIXED_PATHS = (
    "/var/lib/kubelet",
    "/var/lib/cni",
    "/usr/local/vgpu",
    "/tmp/vgpulock",
    "/run/containerd",
    "/opt/containerd",
)


@pytest.fixture(scope="module")
def node(
    real_node_tools: None, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealNode]:
    with RealNode(control_plane, tmp_path_factory.mktemp("node"), name="shared-node") as running:
        yield running


def test_pod_runs_in_a_real_container(node: RealNode, control_plane: ControlPlane) -> None:
    control_plane.api.create(PODS, make_pod("greeter", ["sh", "-c", "echo hello from $HOSTNAME"], node="shared-node"))
    control_plane.api.wait_for(f"{PODS}/greeter", lambda pod: pod["status"]["phase"] == "Succeeded")
    assert node.container_log("greeter") == "hello from greeter\n"


def test_kubelet_offers_its_device_plugin_socket_inside_only(node: RealNode) -> None:
    listed = node.run(["ls", "/var/lib/kubelet/device-plugins"]).split()
    assert "kubelet.sock" in listed
    assert node.reach("/var/lib/kubelet/device-plugins/kubelet.sock").is_socket()


def test_what_a_process_inside_writes_to_fixed_paths_stays_inside(node: RealNode) -> None:
    node.run(["mkdir", "-p", "/usr/local/vgpu/shared-node-only", "/tmp/vgpulock/shared-node-only"])
    assert node.reach("/usr/local/vgpu/shared-node-only").is_dir()
    assert not Path("/usr/local/vgpu/shared-node-only").exists()
    assert not Path("/tmp/vgpulock/shared-node-only").exists()


def test_process_inside_reaches_the_api_server(node: RealNode, control_plane: ControlPlane) -> None:
    port = control_plane.url.rpartition(":")[2]
    script = f"import socket; socket.create_connection(('127.0.0.1', {port})).close(); print('reached')"
    assert node.run([sys.executable, "-c", script]) == "reached\n"


def test_process_inside_is_stopped_politely(node: RealNode) -> None:
    script = "import signal, sys; print('on', flush=True); signal.sigwait([signal.SIGTERM]); print('bye', flush=True)"
    wait_for_term = f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); {script}"
    process = node.popen("polite", [sys.executable, "-c", wait_for_term])
    process.wait_until(lambda: process.log.read_text() == "on\n")
    process.stop()
    assert process.log.read_text() == "on\nbye\n"


def test_failing_command_inside_is_reported(node: RealNode) -> None:
    with pytest.raises(ProcessError, match="ls inside the node ended with status 2: ls: cannot access '/nowhere'"):
        node.run(["ls", "/nowhere"])


def test_node_leaves_nothing_but_logs(real_node_tools: None, control_plane: ControlPlane, tmp_path: Path) -> None:
    before = {path for path in FIXED_PATHS if Path(path).exists()}
    with RealNode(control_plane, tmp_path / "node", name="brief-node") as node:
        control_plane.api.create(PODS, make_pod("sleeper", node="brief-node"))
        control_plane.api.wait_for(f"{PODS}/sleeper", lambda pod: pod["status"]["phase"] == "Running")
        left = node.popen("left-running", ["sh", "-c", "echo on; exec sleep 600", node.directory])
        left.wait_until(lambda: left.log.read_text() == "on\n")
        assert find_processes(tmp_path)
    assert find_processes(tmp_path) == []
    assert find_mounts(tmp_path) == []
    assert list(Path("/sys/fs/cgroup").rglob(node.cgroup)) == []
    assert {path for path in FIXED_PATHS if Path(path).exists()} == before
    assert not (node.directory / "containerd").exists()
