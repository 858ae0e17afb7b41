"""Bodies of the patches with which a kubelet reports on nodes and pods. Pure."""

from collections.abc import Mapping
from typing import Any

from gpuloom.wire.objects import Pod

_MACHINE = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "250"}


def describe_node(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Give the node object that a kubelet creates for itself."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels}},
    }


def report_node(capacity: Mapping[str, int], allocatable: Mapping[str, int], now: str) -> dict[str, Any]:
    """Say that the node is ready and has these devices, resource name to number; `now` is RFC 3339."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "simulated kubelet is ready",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "status": {
            "conditions": [ready],
            "capacity": _MACHINE | {resource: str(count) for resource, count in capacity.items()},
            "allocatable": _MACHINE | {resource: str(count) for resource, count in allocatable.items()},
        }
    }


def report_running(pod: Pod, now: str) -> dict[str, Any]:
    """Say that every container runs and is ready, and that init containers have done their work."""
    running = {"running": {"startedAt": now}}
    done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
    return {
        "status": {
            "phase": "Running",
            "startTime": now,
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": now}
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ],
            "initContainerStatuses": [
                _report_container(container.name, running if container.is_sidecar else done)
                for container in pod.init_containers
            ],
            "containerStatuses": [_report_container(container.name, running) for container in pod.containers],
        }
    }


def report_refused(message: str, now: str) -> dict[str, Any]:
    """Say that the kubelet did not admit the pod."""
    return {
        "status": {
            "phase": "Failed",
            "reason": "UnexpectedAdmissionError",
            "message": f"Pod was rejected: {message}",
            "startTime": now,
        }
    }


def _report_container(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "ready": True,
        "started": True,
        "restartCount": 0,
        "image": "simulated",
        "imageID": "",
        "state": state,
    }
