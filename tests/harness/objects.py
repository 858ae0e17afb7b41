"""Kubernetes objects that tests create on a real API server."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.api import Api

BUSYBOX_IMAGE = "localhost/busybox:1"
PODS = "/api/v1/namespaces/default/pods"


def create_ready_node(api: Api, name: str, *, capacity: Mapping[str, str] | None = None) -> Any:
    """Create a Node that no kubelet stands behind and that the scheduler takes for ready; return it."""
    api.create("/api/v1/nodes", {"metadata": {"name": name}})
    room = {"cpu": "16", "memory": "64Gi", "pods": "110", **(capacity or {})}
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "no kubelet is behind this node"}
    api.merge(
        f"/api/v1/nodes/{name}/status", {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
    )
    return api.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})


def create_priority_class(api: Api, name: str, value: int, **more: Any) -> None:
    """Create a PriorityClass; ``more`` are other fields of it."""
    api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value, **more})


def make_pod(
    name: str,
    command: Sequence[str] = ("sleep", "3600"),
    *,
    node: str = "",
    scheduler_name: str = "default-scheduler",
    limits: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a pod of one busybox container `main` that is not restarted; `node` binds it without a scheduler."""
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": list(command),
        "resources": {"limits": dict(limits or {})},
    }
    spec: dict[str, Any] = {
        "containers": [container],
        "restartPolicy": "Never",
        "schedulerName": scheduler_name,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
    }
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "annotations": dict(annotations or {})}, "spec": spec}
