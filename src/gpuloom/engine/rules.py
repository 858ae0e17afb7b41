"""Every rule about cards: one function and one Reason each.

A rule gets cards and what is wanted of them and says which cards it rejects. It uses arithmetic, comparison, ``&`` and
``|`` only, so that it reads as the sentence it is and works on columns of any length. Which rules are asked, and in
which order, stands in the vendor's profile. Source: scheduler 6.3.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from gpuloom.model.cards import Cards, Flags
from gpuloom.model.reasons import Reason
from gpuloom.model.want import Want

WHOLE_CARD = 100
"""Cores are per cent of a card."""

Positions = NDArray[np.uint8]
"""Per card the position of the first rule that rejects it, counted from 1; 0: it fits."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: which cards it rejects, and the word for it."""

    reason: Reason
    rejects: Callable[[Cards, Want], Flags]


def unhealthy(cards: Cards, _want: Want) -> Flags:
    """Reject a card that its node reports as unhealthy."""
    return ~cards.healthy


def other_model(_cards: Cards, want: Want) -> Flags:
    """Reject a card whose model the pod's annotations exclude."""
    return want.refused_model


def other_uuid(_cards: Cards, want: Want) -> Flags:
    """Reject a card whose id the pod's annotations exclude."""
    return want.refused_uuid


def no_slot(cards: Cards, _want: Want) -> Flags:
    """Reject a card that as many containers share as may."""
    return cards.count <= cards.used_slots


def too_little_memory(cards: Cards, want: Want) -> Flags:
    """Reject a card with less free memory than wanted."""
    return cards.total_memory_mib - cards.used_memory_mib < want.memory_mib


def too_few_cores(cards: Cards, want: Want) -> Flags:
    """Reject a card with fewer free cores than wanted."""
    return cards.total_cores - cards.used_cores < want.cores


def not_exclusive(cards: Cards, want: Want) -> Flags:
    """Reject a card in use when the whole of it is wanted."""
    return (cards.total_cores == WHOLE_CARD) & (cards.used_slots > 0) & (want.cores == WHOLE_CARD)


def cores_used_up(cards: Cards, want: Want) -> Flags:
    """Reject a card without a free core for a container that names no amount of cores."""
    return (cards.total_cores != 0) & (cards.used_cores == cards.total_cores) & (want.cores == 0)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "health": Rule(Reason.CARD_NOT_HEALTH, unhealthy),
        "model": Rule(Reason.CARD_TYPE_MISMATCH, other_model),
        "uuid": Rule(Reason.CARD_UUID_MISMATCH, other_uuid),
        "slots": Rule(Reason.CARD_TIME_SLICING_EXHAUSTED, no_slot),
        "memory": Rule(Reason.CARD_INSUFFICIENT_MEMORY, too_little_memory),
        "cores": Rule(Reason.CARD_INSUFFICIENT_CORE, too_few_cores),
        "exclusive": Rule(Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, not_exclusive),
        "full": Rule(Reason.CARD_COMPUTE_UNITS_EXHAUSTED, cores_used_up),
    }
)
"""The checks that a profile may name."""


def select_rules(checks: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules of a profile in its order.

    Raises ValueError for a name that is no rule.
    """
    unknown = [name for name in checks if name not in RULES]
    if unknown:
        raise ValueError(f"unknown checks {', '.join(unknown)}: known are {', '.join(RULES)}")
    return tuple(RULES[name] for name in checks)


def judge(cards: Cards, want: Want, rules: Sequence[Rule]) -> Positions:
    """Return for every card the position of the first rule that rejects it, 0 where none does."""
    positions = np.zeros(len(cards), np.uint8)
    for position in range(len(rules), 0, -1):
        np.copyto(positions, np.uint8(position), where=rules[position - 1].rejects(cards, want))
    return positions
