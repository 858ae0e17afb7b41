"""Card and node policies, and the weights of the device score (scheduler 5.3, 5.6, 5.8)."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gpuloom.engine.request.options import DeviceSort
from gpuloom.wire.keys import WEIGHTS

BINPACK = "binpack"
SPREAD = "spread"
MUTEX = "mutex"
NUMA = "numa"
TOPOLOGY = "topology-aware"


SortKey = Literal["score", "-score", "numa", "-numa", "used"]
"""What cards are tried by, smallest first."""

_ORDERS: dict[DeviceSort, dict[str, tuple[SortKey, ...]]] = {
    "numa-first": {BINPACK: ("numa", "-score"), SPREAD: ("-numa", "score")},
    "score-first": {BINPACK: ("-score", "-numa"), SPREAD: ("score", "-numa")},
}
_MUTEX_ORDER: tuple[SortKey, ...] = ("used", "-numa")
_CHAIN_KEYS: dict[str, SortKey] = {BINPACK: "-score", SPREAD: "score", NUMA: "-numa"}


class PolicyError(ValueError):
    """A pod's policy annotation cannot be used; the message is HAMi's."""


@dataclass(frozen=True, slots=True)
class CardPolicy:
    """How cards of a node are chosen: in which order they are tried, and what is asked of them beside.

    order     keys in which cards are tried, smallest first; ties go to the highest index
    topology  several cards are chosen by how well they are linked
    mutex     only cards that nobody uses
    """

    order: tuple[SortKey, ...]
    topology: bool
    mutex: bool


@lru_cache(64)
def read_card_policy(value: str, *, numa_bind: bool, device_sort: DeviceSort) -> CardPolicy:
    """Read a card policy: one word, or words joined by commas that are asked one after another."""
    parts = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
    if value == MUTEX:
        order = _MUTEX_ORDER
    elif value == NUMA or "," in value:
        order = _read_chain(parts, numa_bind=numa_bind)
    else:
        # Every word that is not binpack, unknown ones too, spreads.
        order = _ORDERS["numa-first" if numa_bind else device_sort][BINPACK if value == BINPACK else SPREAD]
    return CardPolicy(order, topology=TOPOLOGY in parts, mutex=MUTEX in parts)


def _read_chain(parts: tuple[str, ...], *, numa_bind: bool) -> tuple[SortKey, ...]:
    words = [part for part in parts if part in _CHAIN_KEYS] or [SPREAD]
    if numa_bind:
        words = [NUMA, *(word for word in words if word != NUMA)]
    return tuple(_CHAIN_KEYS[word] for word in words)


@dataclass(frozen=True, slots=True)
class Weights:
    """How much slots, cores and memory count in the device score."""

    slot: int = 1
    core: int = 1
    memory: int = 1


EVEN_WEIGHTS = Weights()
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_INT64 = range(-(2**63), 2**63)


def read_weights(value: str | None) -> Weights:
    """Read the weights annotation, None when the pod has none.

    Raises PolicyError with HAMi's text.
    """
    if value is None:
        return EVEN_WEIGHTS
    try:
        return _parse_weights(value)
    except PolicyError as error:
        raise PolicyError(f'invalid {WEIGHTS} annotation "{value}": {error}') from error


def _parse_weights(value: str) -> Weights:
    parts = value.split(",")
    if len(parts) != 3:
        raise PolicyError("expected slot, core, and memory weights")
    found: dict[str, int] = {}
    for part in parts:
        key, separator, number = (piece.strip() for piece in part.partition("="))
        if not separator:
            raise PolicyError("expected key=value entries")
        if key in found:
            raise PolicyError(f'duplicate "{key}" weight')
        found[key] = _read_weight(key, number)
        if key not in Weights.__dataclass_fields__:
            raise PolicyError(f'unknown weight "{key}"')
    if not any(found.values()):
        raise PolicyError("at least one weight must be positive")
    return Weights(**found)


def _read_weight(key: str, number: str) -> int:
    if not _INTEGER.fullmatch(number) or len(number) > 24 or int(number) not in _INT64:
        raise PolicyError(f'"{key}" weight must be an integer')
    if int(number) < 0:
        raise PolicyError(f'"{key}" weight must not be negative')
    return int(number)
