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
) -> dict[str, Any]:
    """Describe a pod with one container that asks for a share of each of so many cards.

    Memory is per card, in MiB or per cent; ``cores`` is in per cent of a card. What is 0 is not asked for.
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
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": dict(annotations or {})},
        "spec": spec,
    }
