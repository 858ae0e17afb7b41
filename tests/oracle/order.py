"""In which order cards are tried and nodes are preferred (scheduler 5.3, 5.5, 5.6)."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from gpuloom.wire.errors import WireError
from gpuloom.wire.words import decode_bool
from oracle.device import DeviceUsage
from oracle.settings import Settings

NODE_POLICY: Final = "hami.io/node-scheduler-policy"
CARD_POLICY: Final = "hami.io/gpu-scheduler-policy"
NUMA_BIND: Final = "nvidia.com/numa-bind"

CHAIN_KEYS: Final[Mapping[str, Callable[[DeviceUsage], float]]] = {
    "binpack": lambda device: device.score,
    "spread": lambda device: -device.score,
    "first-fit": lambda device: -device.card.index,
    "numa": lambda device: device.card.numa,
}


def node_policy(annotations: Mapping[str, str], settings: Settings) -> str:
    """Return the effective node policy: the annotation if it exists, even empty (5.6)."""
    return annotations.get(NODE_POLICY, settings.node_scheduler_policy)


def card_policy(annotations: Mapping[str, str], settings: Settings) -> str:
    """Return the effective card policy: the annotation if it exists, even empty (5.6)."""
    return annotations.get(CARD_POLICY, settings.gpu_scheduler_policy)


def policy_words(policy: str) -> list[str]:
    """Return the words a card policy contains (5.6)."""
    return [word.strip() for word in policy.split(",")]


def is_numa_bound(annotations: Mapping[str, str]) -> bool:
    """Whether all cards of a container must lie on one NUMA node; an unreadable value means no (6.6)."""
    try:
        return decode_bool(annotations.get(NUMA_BIND, "false"))
    except WireError:
        return False


def sort_devices(
    devices: Sequence[DeviceUsage], policy: str, settings: Settings, *, numa_bind: bool
) -> list[DeviceUsage]:
    """Return the cards ascending; they are tried from the end (5.3)."""
    return sorted(
        devices,
        key=lambda device: (*_policy_key(device, policy, settings, numa_bind), device.card.index, device.order),
    )


def sort_nodes(scores: Mapping[str, float], policy: str) -> list[tuple[str, float]]:
    """Return nodes and scores so that the last one is the best; ``scores`` is in the order of the candidates (5.5)."""
    last_candidate_first = list(scores.items())[::-1]
    if policy == "first-fit":
        return [(node, 0.0) for node, _ in last_candidate_first]
    return sorted(last_candidate_first, key=itemgetter(1), reverse=policy == "spread")


def _policy_key(device: DeviceUsage, policy: str, settings: Settings, numa_bind: bool) -> tuple[float, ...]:  # noqa: FBT001
    if policy == "mutex":
        return (-device.used, device.card.numa)
    if policy == "numa" or "," in policy:
        return tuple(CHAIN_KEYS[word](device) for word in _chain(policy, numa_bind=numa_bind))
    numa_first = numa_bind or settings.device_sort == "numa-first"
    if policy == "first-fit":
        return (-device.card.numa, -device.card.index) if numa_first else (-device.card.index,)
    if policy == "binpack":
        return (-device.card.numa, device.score) if numa_first else (device.score, device.card.numa)
    return (device.card.numa, -device.score) if numa_first else (-device.score, device.card.numa)


def _chain(policy: str, *, numa_bind: bool) -> list[str]:
    words = list(dict.fromkeys(word for word in policy_words(policy) if word in CHAIN_KEYS)) or ["spread"]
    if numa_bind:
        words = ["numa", *(word for word in words if word != "numa")]
    return words
