"""Pods as people write them, for the demo, tests and experiments."""

from collections.abc import Mapping
from typing import Any


def pod_manifest(
    name: str,
    *,
    cards: int = 1,
    memory_mib: int = 0,
    memory_percentage: int = 0,
    cores: int = 0,
    namespace: str = "default",
    annotations: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] | None = None,
    priority: int | None = None,
    owner: str = "",
) -> dict[str, Any]:
    """Describe a pod with one container that asks for a share of each of so many cards.

    Memory is per card, in MiB or per cent; ``cores`` is in per cent of a card. What is 0 is not asked for. ``owner`` is
    the name of a StatefulSet.
    """
    asked = {
        "nvidia.com/gpu": cards,
        "nvidia.com/gpumem": memory_mib,
        "nvidia.com/gpumem-percentage": memory_percentage,
        "nvidia.com/gpucores": cores,
    }
    container = {
        "name": "main",
        "image": "registry.example/cuda-workload:1",
        "resources": {"limits": {resource: str(amount) for resource, amount in asked.items() if amount}},
    }
    spec: dict[str, Any] = {"containers": [container]}
    if node_selector:
        spec["nodeSelector"] = dict(node_selector)
    if priority is not None:
        spec["priority"] = priority
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "annotations": dict(annotations or {})}
    if owner:
        kind = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner, "uid": f"uid-of-{owner}"}
        metadata["ownerReferences"] = [{**kind, "controller": True}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
    }
