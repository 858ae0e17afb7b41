"""Scores of cards and nodes, and the weights a pod may give them (scheduler 5.1, 5.2, 5.4, 5.8)."""

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oracle.device import DeviceUsage
from oracle.records import PERCENTAGE_NOT_SET, Request
from oracle.settings import Settings

WEIGHT = 10
WEIGHTS_KEY = "hami.io/device-scoring-weights"


class WeightsError(ValueError):
    """The weights annotation cannot be read."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much slots, cores and memory count."""

    slot: int = 1
    core: int = 1
    memory: int = 1


def to_float32(score: float) -> float:
    """Round a final score as it is compared and printed (5.1)."""
    return float(struct.unpack("f", struct.pack("f", score))[0])


def device_score(device: DeviceUsage, requests: Sequence[Request], weights: Weights, settings: Settings) -> float:
    """Score one card for one container, in the card's state of now (5.2)."""
    card = device.card
    if 0 in (card.count, card.devcore, card.devmem):
        return 0.0
    slots = len(requests) if settings.device_score_slots == "one" else sum(request.nums for request in requests)
    cores = sum(request.coresreq for request in requests)
    memory = sum(_memory_for_score(request, card.devmem) for request in requests)
    return to_float32(
        WEIGHT
        * (
            weights.slot * (slots + device.used) / card.count
            + weights.core * (cores + device.usedcores) / card.devcore
            + weights.memory * (memory + device.usedmem) / card.devmem
        )
    )


def node_score(devices: Sequence[DeviceUsage], extra: float = 0.0) -> float:
    """Score a node by what is used on it, before anything is allocated, and by what vendors add (5.4, 5.7)."""
    count = sum(device.card.count for device in devices)
    cores = sum(device.card.devcore for device in devices)
    memory = sum(device.card.devmem for device in devices)
    if 0 in (count, cores, memory):
        return to_float32(extra)
    used = sum(device.used for device in devices) / count
    usedcores = sum(device.usedcores for device in devices) / cores
    usedmem = sum(device.usedmem for device in devices) / memory
    return to_float32(WEIGHT * (used + usedcores + usedmem) + extra)


def read_weights(annotations: Mapping[str, str]) -> Weights:
    """Read the weights annotation; absent means equal weights (5.8).

    Raises WeightsError with HAMi's text.
    """
    text = annotations.get(WEIGHTS_KEY)
    if text is None:
        return Weights()
    try:
        return _parse_weights(text.split(","))
    except WeightsError as error:
        raise WeightsError(f'invalid {WEIGHTS_KEY} annotation "{text}": {error}') from error


def _parse_weights(parts: Sequence[str]) -> Weights:
    if len(parts) != 3:
        raise WeightsError("expected slot, core, and memory weights")
    weights: dict[str, int] = {}
    for part in parts:
        key, separator, value = part.partition("=")
        if not separator:
            raise WeightsError("expected key=value entries")
        weights[key.strip()] = _parse_weight(key.strip(), value.strip(), weights)
    if not any(weights.values()):
        raise WeightsError("at least one weight must be positive")
    return Weights(**weights)


def _parse_weight(key: str, value: str, seen: Iterable[str]) -> int:
    if key in seen:
        raise WeightsError(f'duplicate "{key}" weight')
    if not re.fullmatch(r"[+-]?[0-9]+", value) or not -(2**63) <= int(value) < 2**63:
        raise WeightsError(f'"{key}" weight must be an integer')
    if int(value) < 0:
        raise WeightsError(f'"{key}" weight must not be negative')
    if key not in {"slot", "core", "memory"}:
        raise WeightsError(f'unknown weight "{key}"')
    return int(value)


def _memory_for_score(request: Request, totalmem: int) -> int:
    if request.mempct not in {0, PERCENTAGE_NOT_SET}:
        return totalmem * request.mempct // 100
    return request.memreq
