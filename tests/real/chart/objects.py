"""Reading what the chart made."""

from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from harness.helm import kube_version

KUBE_SCHEDULER = f"registry.k8s.io/kube-scheduler:{kube_version()}"
HAMI = "docker.io/projecthami/hami:v2.10.0"
HAMI_LIBRARY = "k8s-vgpu/lib/nvidia/libvgpu.so.v2.10.0"
"""Where HAMi's Dockerfile puts HAMi-core's library: under its version alone."""

"""Kubernetes' own, wherever gpuloom's images are."""


def with_values(values: dict[str, Any], base: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return values merged over `base`, as helm merges them."""
    merged = dict(base or {})
    for key, value in values.items():
        below = merged.get(key)
        merged[key] = with_values(value, below) if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


def find(objects: Iterable[Any], kind: str, name: str = "") -> Any:
    """Return the one object of a kind whose name ends so."""
    (found,) = (one for one in objects if one["kind"] == kind and one["metadata"]["name"].endswith(name))
    return found


def list_pod_specs(objects: Iterable[Any]) -> Iterator[Any]:
    """Give the spec of every pod template."""
    for one in objects:
        if one["kind"] in {"Deployment", "DaemonSet"}:
            yield one["spec"]["template"]["spec"]


def list_containers(objects: Iterable[Any]) -> Iterator[Any]:
    """Give every container, the ones that run first too."""
    for spec in list_pod_specs(objects):
        yield from (*spec.get("initContainers", []), *spec["containers"])


def find_container(objects: Iterable[Any], name: str) -> Any:
    """Return the container with this name."""
    (found,) = (one for one in list_containers(objects) if one["name"] == name)
    return found


def read_data(objects: Iterable[Any], name: str, key: str) -> Any:
    """Return a YAML or JSON text in a ConfigMap, parsed."""
    return yaml.load(find(objects, "ConfigMap", name)["data"][key], Loader=yaml.CSafeLoader)


def list_managed(objects: Iterable[Any]) -> list[str]:
    """Return the resources that kube-scheduler leaves to the extender."""
    (extender,) = read_data(objects, "-scheduler", "config.yaml")["extenders"]
    return [resource["name"] for resource in extender["managedResources"]]
