"""What must be right on a node at any time: what is allocatable, what annotations say, what containers see."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuloom.model.card import Card
from gpuloom.model.share import ContainerShares
from gpuloom.wire import keys
from gpuloom.wire.register import decode_register
from gpuloom.wire.shares import decode_shares, has_shares
from harness.objects import PODS

from .conftest import RESOURCE, Site


def find_wrongs(site: Site, *, is_plugin_up: bool = True) -> list[str]:
    """Say what does not agree on the site's node and with its pods; empty when all is right.

    Without its plugin the kubelet has nothing to give, and pods go on.
    """
    node = site.api.get(f"/api/v1/nodes/{site.node.name}")
    annotations = node["metadata"]["annotations"]
    cards = {card.id: card for card in decode_register(annotations[keys.NODE_REGISTER])}
    healthy = [card.count for card in cards.values() if card.healthy] if is_plugin_up else []
    allocatable = int(node["status"]["allocatable"].get(RESOURCE, "0"))
    wrongs = []
    if allocatable != sum(healthy):
        wrongs.append(f"{allocatable} devices are allocatable, the registered cards make {sum(healthy)}")
    if keys.NODE_LOCK in annotations:
        wrongs.append(f"the node is locked: {annotations[keys.NODE_LOCK]}")
    for pod in site.api.get(PODS)["items"]:
        wrongs.extend(f"pod {pod['metadata']['name']}: {wrong}" for wrong in _find_wrongs_of_pod(site, pod, cards))
    return wrongs


def _find_wrongs_of_pod(site: Site, pod: Mapping[str, Any], cards: Mapping[str, Card]) -> Iterator[str]:
    annotations, spec = pod["metadata"]["annotations"], pod["spec"]
    if annotations[keys.BIND_PHASE] != keys.PHASE_SUCCESS:
        yield f"is in phase {annotations[keys.BIND_PHASE]}"
    if has_shares(annotations[keys.DEVICES_TO_ALLOCATE]):
        yield f"has devices left to allocate: {annotations[keys.DEVICES_TO_ALLOCATE]}"
    names = [container["name"] for container in (*spec.get("initContainers", ()), *spec["containers"])]
    for name, shares in zip(names, decode_shares(annotations[keys.DEVICES_ALLOCATED]), strict=False):
        seen = read_environment(site, pod["metadata"]["name"], name)
        expected = _describe(shares)
        if {key: seen.get(key) for key in expected} != expected:
            yield f"container {name} sees {seen}, its share is {expected}"
        if unknown := {share.uuid for share in shares} - cards.keys():
            yield f"container {name} has cards that the node does not register: {unknown}"


def _describe(shares: ContainerShares) -> Mapping[str, str]:
    limits = {f"CUDA_DEVICE_MEMORY_LIMIT_{place}": f"{share.memory_mib}m" for place, share in enumerate(shares)}
    return {
        "NVIDIA_VISIBLE_DEVICES": ",".join(share.uuid for share in shares),
        "CUDA_DEVICE_SM_LIMIT": str(shares[0].cores),
        **limits,
    }


def read_environment(site: Site, pod: str, container: str) -> Mapping[str, str]:
    """The environment that a container printed when it began."""
    lines: Sequence[str] = site.node.container_log(pod, container=container).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)
