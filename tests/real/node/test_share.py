"""The device plugin with a real kubelet, and what a real container sees of its share."""

import sys
import urllib.request
from collections.abc import Iterator

import pytest

from gpuloom.node.simulated import SimulatedMachine, load_machine
from harness.controlplane import ControlPlane, find_free_ports
from harness.node import RealNode
from harness.objects import PODS, make_pod
from harness.processes import ChildProcess

pytestmark = [pytest.mark.control_plane, pytest.mark.real_node]

NODE = "gpu-node"
NODE_PATH = f"/api/v1/nodes/{NODE}"
LOCK = "hami.io/mutex.lock"
REGISTER = "hami.io/node-nvidia-register"
DEVICES = "hami.io/vgpu-devices-to-allocate"
CARD = SimulatedMachine(NODE, load_machine("two-t4")).gpus[0].uuid
SHARE = f"{CARD},NVIDIA,2000,15:;"
MAKE_LIMITER = "mkdir -p /usr/local/vgpu && cd /usr/local/vgpu && touch libvgpu.so ld.so.preload"
LOOK_AROUND = "env; ls -l /usr/local/vgpu/libvgpu.so; ls -ld /tmp/vgpulock; grep -c ld.so.preload /proc/mounts"


@pytest.fixture(scope="module")
def node(
    real_node_tools: None, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealNode]:
    """A real node whose device plugin offers two simulated cards."""
    with RealNode(control_plane, tmp_path_factory.mktemp("node"), name=NODE) as running:
        running.run(["sh", "-c", MAKE_LIMITER])
        flags = [f"--node-name={NODE}", "--cards=two-t4", f"--kubeconfig={control_plane.kubeconfig}"]
        running.popen("device-plugin", [sys.executable, "-m", "gpuloom.cli", "device-plugin", *flags])
        control_plane.api.wait_for(
            NODE_PATH,
            lambda found: (
                found["status"]["allocatable"].get("nvidia.com/gpu") == "20"
                and REGISTER in found["metadata"].get("annotations", {})
            ),
        )
        yield running
        for pod in control_plane.api.get(PODS)["items"]:
            if pod["spec"].get("nodeName") == NODE:
                control_plane.api.delete(f"{PODS}/{pod['metadata']['name']}")
    control_plane.api.delete(NODE_PATH)


def start_pod(control_plane: ControlPlane, name: str, share: str, *, command: str = LOOK_AROUND, user: int = 0) -> None:
    """Lock the node for a pod that the kubelet starts at once, as if the scheduler had just bound it."""
    control_plane.api.merge(NODE_PATH, {"metadata": {"annotations": {LOCK: f"2026-01-01T00:00:00Z,default,{name}"}}})
    annotations = {
        "hami.io/vgpu-node": NODE,
        "hami.io/bind-phase": "allocating",
        DEVICES: share,
        "hami.io/vgpu-devices-allocated": share,
    }
    pod = make_pod(
        name,
        ["sh", "-c", command],
        node=NODE,
        scheduler_name="hami-scheduler",
        limits={"nvidia.com/gpu": "1"},
        annotations=annotations,
    )
    pod["spec"]["securityContext"] = {"runAsUser": user, "runAsGroup": user}
    control_plane.api.create(PODS, pod)


@pytest.fixture(scope="module")
def container_log(node: RealNode, control_plane: ControlPlane) -> str:
    """What a container with one share printed about itself."""
    start_pod(control_plane, "shares", SHARE)
    control_plane.api.wait_for(f"{PODS}/shares", lambda pod: pod["status"]["phase"] == "Succeeded")
    return node.container_log("shares")


@pytest.mark.parametrize(
    "line",
    [
        f"NVIDIA_VISIBLE_DEVICES={CARD}",
        "CUDA_DEVICE_MEMORY_LIMIT_0=2000m",
        "CUDA_DEVICE_SM_LIMIT=15",
        "LIBCUDA_LOG_LEVEL=1",
    ],
)
def test_a_real_container_has_the_limits_of_its_share(container_log: str, line: str) -> None:
    assert line in container_log.splitlines()


def test_a_real_container_sees_the_limiters_files(container_log: str) -> None:
    library, lock_dir, preloads = container_log.splitlines()[-3:]
    assert library.endswith("/usr/local/vgpu/libvgpu.so")
    assert lock_dir.startswith("drwxrwxrwx")
    assert preloads == "1"


def test_the_real_pod_is_marked_and_the_lock_released(container_log: str, control_plane: ControlPlane) -> None:
    annotations = control_plane.api.get(f"{PODS}/shares")["metadata"]["annotations"]
    assert (annotations["hami.io/bind-phase"], annotations[DEVICES]) == ("success", ";")
    assert LOCK not in control_plane.api.get(NODE_PATH)["metadata"]["annotations"]


def test_a_real_kubelet_fails_a_pod_that_the_plugin_refuses(node: RealNode, control_plane: ControlPlane) -> None:
    start_pod(control_plane, "refused", "GPU-a,NVIDIA,1,1:GPU-b,NVIDIA,1,1:;")
    pod = control_plane.api.wait_for(f"{PODS}/refused", lambda pod: pod["status"]["phase"] == "Failed")
    assert pod["status"]["reason"] == "UnexpectedAdmissionError"
    assert pod["status"]["message"].startswith(
        "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = device number not matched"
    )


def find_locks(node: RealNode, control_plane: ControlPlane, name: str) -> str:
    """What lies in the folder of the host that a container has for its locks, with the owners' numbers."""
    uid = control_plane.api.get(f"{PODS}/{name}")["metadata"]["uid"]
    folder = f"/usr/local/vgpu/containers/{uid}_main.locks"
    return node.run(["sh", "-c", f"cd {folder} && stat -c '%n %u' -- *"]).strip()


@pytest.mark.parametrize("users", [(1000, 2000), (0, 0)], ids=["users", "root"])
def test_containers_neither_see_nor_delete_each_others_locks(
    node: RealNode, control_plane: ControlPlane, users: tuple[int, int]
) -> None:
    """trust T-12: The second one deletes all that it finds before it locks itself."""
    lock = "echo > /tmp/vgpulock/lock && echo > /usr/local/vgpu/x.cache && echo locked; sleep 3600"
    delete = "find /tmp/vgpulock /usr/local/vgpu -type f; rm -f /tmp/vgpulock/* /tmp/vgpulock/.[!.]*; "
    one, other = f"one-{users[0]}", f"other-{users[1]}"
    for name, user, command in ((one, users[0], lock), (other, users[1], delete + lock)):
        start_pod(control_plane, name, SHARE, command=command, user=user)
        seen = node.container_log(name, holding="locked\n")
    assert [find_locks(node, control_plane, name) for name in (one, other)] == [f"lock {user}" for user in users]
    assert "vgpulock" not in seen


def test_other_users_of_the_node_do_not_come_to_containers_directories(node: RealNode, container_log: str) -> None:
    """trust T-12."""
    look = "setpriv --reuid=1000 --regid=1000 --clear-groups ls /usr/local/vgpu/containers || echo closed"
    assert node.run(["sh", "-c", look]).strip() == "closed"


PUT = """put() { printf "$2" | dd of=$REGION bs=1 seek=$1 conv=notrunc 2>/dev/null; }
REGION=$CUDA_DEVICE_MEMORY_SHARED_CACHE; truncate -s 2008953 $REGION
put 0 '\\116\\367\\057\\001\\001\\000\\000\\000\\002'; put 56 '\\002'; put 64 {card}; put 160 GPU-of-somebody-else
put 2008908 '\\000'
echo made; while true; do put 2008904 '\\002'; sleep 0.2; done"""
"""A region of version 1.2 of two cards and priority 0, whose container says that it runs kernels all the time."""

QUIET = PUT.replace("while true; do put 2008904", "put 2008904").replace("sleep 0.2; done", "sleep 3600")
"""The same of a container that ran one kernel."""


@pytest.fixture
def monitor(node: RealNode, control_plane: ControlPlane) -> Iterator[tuple[ChildProcess, str]]:
    """The node's monitor, and where it serves metrics."""
    (port,) = find_free_ports(1)
    flags = [f"--node-name={NODE}", "--cards=two-t4", f"--kubeconfig={control_plane.kubeconfig}"]
    address = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "gpuloom.cli", "monitor", *flags, f"--metrics-bind-address={address}"]
    with node.popen("monitor", command) as running:
        yield running, f"http://{address}/metrics"


def read_recent(node: RealNode, control_plane: ControlPlane, name: str) -> int:
    """The count of recent kernels in a container's region."""
    uid = control_plane.api.get(f"{PODS}/{name}")["metadata"]["uid"]
    command = f"od -A n -t d4 -j 2008904 -N 4 /usr/local/vgpu/containers/{uid}_main/*.cache"
    return int(node.run(["sh", "-c", command]))


def test_a_container_that_writes_another_priority_and_cards_into_its_region_blocks_nobody(
    node: RealNode, control_plane: ControlPlane, monitor: tuple[ChildProcess, str]
) -> None:
    """trust T-06 and T-07: both have the default priority, and a share of the same card."""
    for name, user, command in (("liar", 1000, PUT), ("honest", 2000, QUIET)):
        start_pod(control_plane, name, SHARE, command=command.replace("{card}", CARD), user=user)
        node.container_log(name, holding="made\n")
    seen = []

    def is_judged() -> bool:
        seen.append(read_recent(node, control_plane, "honest"))
        return seen[-1] in {0, -1}

    running, url = monitor
    running.wait_until(is_judged, what="judging the honest container twice")
    assert -1 not in seen
    with urllib.request.urlopen(url) as answer:
        lines = answer.read().decode().splitlines()
    told = [line for line in lines if line.startswith("hami_vgpu_memory_limit_bytes") and 'pod="liar"' in line]
    assert [float(line.rpartition(" ")[2]) for line in told] == [2000 * 2**20]
    assert "GPU-of-somebody-else" not in "".join(lines)
