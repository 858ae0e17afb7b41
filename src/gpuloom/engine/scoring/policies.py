"""The table of placement policies, and how a pod's words choose among them (scheduler 5.3, 5.6)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from gpuloom.engine.scoring.binpack import BINPACK
from gpuloom.engine.scoring.card_order import HIGHEST_NUMA, LEAST_SHARED, LOWEST_NUMA, CardOrder, DeviceSort, SortKey
from gpuloom.engine.scoring.first_fit import FIRST_FIT
from gpuloom.engine.scoring.fragmentation_policy import FRAGMENTATION
from gpuloom.engine.scoring.policy import NamedPolicy, NodePolicy
from gpuloom.engine.scoring.spread import SPREAD

POLICIES: Mapping[str, NamedPolicy] = MappingProxyType(
    {policy.word: policy for policy in (BINPACK, SPREAD, FIRST_FIT, FRAGMENTATION)}
)
"""By word. Another one needs its file and its place here; docs/contributing.md says who else knows of it."""

if TYPE_CHECKING:
    PolicyWord: TypeAlias = str
else:
    PolicyWord = Literal[tuple(POLICIES)]
"""What flags may name; a pod may write anything."""

MUTEX = "mutex"
NUMA = "numa"
TOPOLOGY = "topology-aware"
_MUTEX_ORDER: CardOrder = (LEAST_SHARED, HIGHEST_NUMA)


@dataclass(frozen=True, slots=True)
class CardPolicy:
    """How cards of a node are chosen: in which order they are tried, and what is asked of them beside.

    topology  several cards are chosen by how well they are linked
    mutex     only cards that nobody uses
    """

    order: CardOrder
    topology: bool
    mutex: bool


def read_node_policy(word: str) -> NodePolicy:
    """Return how nodes are ranked; every word that is no policy counts as ``binpack``, as in HAMi."""
    return POLICIES.get(word, BINPACK).node


def imply_card_policy(node_word: str, otherwise: str) -> str:
    """Return how cards are chosen where the pod does not say: some policies choose node and cards together."""
    return node_word if POLICIES.get(node_word, BINPACK).chooses_cards else otherwise


@lru_cache(64)
def read_card_policy(value: str, *, numa_bind: bool, device_sort: DeviceSort) -> CardPolicy:
    """Read a card policy: one word, or words joined by commas that are asked one after another."""
    parts = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
    if value == MUTEX:
        order: CardOrder = _MUTEX_ORDER
    elif value == NUMA or "," in value:
        order = _read_chain(parts, numa_bind=numa_bind)
    else:
        # Every word that is no policy spreads, as in HAMi.
        order = POLICIES.get(value, SPREAD).orders["numa-first" if numa_bind else device_sort]
        if numa_bind and order[0] not in {LOWEST_NUMA, HIGHEST_NUMA}:
            # Cards of one NUMA node are collected one after another.
            order = (LOWEST_NUMA, *order)
    return CardPolicy(order, topology=TOPOLOGY in parts, mutex=MUTEX in parts)


def _read_chain(parts: tuple[str, ...], *, numa_bind: bool) -> CardOrder:
    keys: dict[str, SortKey] = {NUMA: HIGHEST_NUMA, **{word: policy.key for word, policy in POLICIES.items()}}
    words = [part for part in parts if part in keys] or [SPREAD.word]
    if numa_bind:
        words = [NUMA, *(word for word in words if word != NUMA)]
    return tuple(keys[word] for word in words)
