"""Which cards are closed because a pod may hold them in a way that cannot be read (trust T-11)."""

import re
from collections.abc import Iterable, Mapping

from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Pod
from gpuloom.wire.quantity import decode_strict_integer
from oracle.podcache import ALLOCATED, VGPU_NODE, read_devices
from oracle.records import RegisteredNode
from oracle.settings import Settings


def find_closed(
    pods: Iterable[Pod], nodes: Mapping[str, RegisteredNode], settings: Settings
) -> Mapping[str, frozenset[str]]:
    """Return the closed cards by node; ``pods`` are all that the watch shows."""
    closed: dict[str, frozenset[str]] = {}
    for pod in pods:
        node = pod.spec.node_name
        if settings.unreadable == "close" and node in nodes and _may_hold_more(pod, settings):
            known = frozenset(card.id for card in nodes[node].cards)
            names = _names(pod.annotations.get(ALLOCATED, ""))
            closed[node] = closed.get(node, frozenset()) | (names if names and names <= known else known)
    return closed


def _may_hold_more(pod: Pod, settings: Settings) -> bool:
    """Whether a pod is bound, asks, and holds something that cannot be read."""
    is_ours = pod.spec.node_name != "" and pod.annotations.get(VGPU_NODE) == pod.spec.node_name
    count = settings.devices.count_name
    asks = any(decode_strict_integer(container.limits.get(count, 0)) != 0 for container in pod.all_containers)
    if not is_ours or pod.is_over or not asks:
        return False
    try:
        devices = [share for container in read_devices(pod) for share in container]
    except WireError:
        return True
    return not devices


def _names(text: str) -> frozenset[str]:
    """Return the cards that a list names, nothing where any of it names none."""
    names = {piece.partition(",")[0].partition("[")[0] for piece in re.split("[:;]", text) if piece.strip()}
    return frozenset() if "" in names else frozenset(names)
