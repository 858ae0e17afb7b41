"""What must hold of a real cluster of one node with two small cards, however gpuloom was installed on it."""

import time
from typing import Any

from harness.closedcluster import ClosedCluster
from harness.cluster import Cluster
from harness.objects import PODS, make_pod

TWO_SMALL_CARDS = """
[[cards]]
model = "Tesla M60"
memory_mib = 8192
count = 2
"""
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
ASKED = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}
SHOW_WHAT_IS_THERE = "env; cat /usr/local/vgpu/libvgpu.so /etc/ld.so.preload; ls -d /tmp/vgpulock; sleep 3600"


def deploy(api: Any, replicas: int) -> None:
    pod = make_pod("template", ["sh", "-c", SHOW_WHAT_IS_THERE], limits=ASKED)
    labels = {"app": "shared"}
    template = {"metadata": {"labels": labels}, "spec": pod["spec"] | {"restartPolicy": "Always"}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    api.create(DEPLOYMENTS, {"metadata": {"name": "shared"}, "spec": spec})


def running(pods: Any) -> list[Any]:
    return [pod for pod in pods["items"] if pod["status"].get("phase") == "Running"]


def card_of(pod: Any) -> str:
    return str(pod["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"].split(",")[0])


def events_of(api: Any, name: str) -> list[str]:
    events = api.get(f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name}")["items"]
    return [event["message"] for event in events]


def wait_for_event(api: Any, name: str, text: str, timeout_s: float = 120) -> None:
    deadline_s = time.monotonic() + timeout_s
    while text not in (messages := events_of(api, name)):
        assert time.monotonic() < deadline_s, f"{name} has no event {text!r} but {messages}"
        time.sleep(0.1)


def check_shared_cards(cluster: Cluster | ClosedCluster) -> float:
    """Let three pods share the cards and a fourth wait for room; return the seconds from room to running.

    The fourth pod, big, goes on running.
    """
    api = cluster.control_plane.api
    deploy(api, replicas=3)
    pods = api.wait_for(PODS, lambda found: len(running(found)) == 3)["items"]
    for pod in pods:
        name, annotations = pod["metadata"]["name"], pod["metadata"]["annotations"]
        assert pod["spec"]["schedulerName"] == "hami-scheduler"
        assert annotations["hami.io/bind-phase"] == "success"
        assert annotations["hami.io/vgpu-devices-to-allocate"] == ";"
        assert annotations["hami.io/vgpu-devices-allocated"] == f"{card_of(pod)},NVIDIA,3000,30:;"
        seen = cluster.node.container_log(name, holding="/tmp/vgpulock\n")
        assert "CUDA_DEVICE_MEMORY_LIMIT_0=3000m\n" in seen
        assert "CUDA_DEVICE_SM_LIMIT=30\n" in seen
        assert f"NVIDIA_VISIBLE_DEVICES={card_of(pod)}\n" in seen
        assert "placeholder\n/usr/local/vgpu/libvgpu.so\n/tmp/vgpulock\n" in seen
    assert len({card_of(pod) for pod in pods}) == 2
    node = api.wait_for(f"/api/v1/nodes/{cluster.node.name}", lambda it: "annotations" in it["metadata"])
    assert "hami.io/mutex.lock" not in node["metadata"]["annotations"]

    api.create(PODS, make_pod("big", limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "7000"}))
    wait_for_event(api, "big", f"1 nodes CardInsufficientMemory({cluster.node.name})")
    assert api.get(f"{PODS}/big")["status"]["phase"] == "Pending"

    api.merge(f"{DEPLOYMENTS}/shared", {"spec": {"replicas": 0}})
    api.wait_for(PODS, lambda found: len({card_of(pod) for pod in running(found) if "app" in labels_of(pod)}) < 2)
    room_s = time.monotonic()
    api.wait_for(f"{PODS}/big", lambda pod: pod["status"]["phase"] == "Running")
    return time.monotonic() - room_s


def labels_of(pod: Any) -> dict[str, str]:
    return dict(pod["metadata"].get("labels") or {})
