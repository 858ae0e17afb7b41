"""How much of cards is really used: values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec


class CardUtilization(msgspec.Struct, frozen=True, rename="camel"):
    """What the driver says of a card: memory in use (MiB) and how busy it is (per cent)."""

    memory_mib: int
    busy: int


@dataclass(frozen=True, slots=True)
class Uses:
    """Use by the card's UUID, and what kept us from knowing all of it."""

    by_uuid: Mapping[str, CardUtilization]
    problem: str = ""


def sum_uses(uses: Iterable[CardUtilization]) -> CardUtilization | None:
    """Return memory in sum and how busy the cards are on average, None of no card."""
    known = list(uses)
    if not known:
        return None
    return CardUtilization(sum(use.memory_mib for use in known), sum(use.busy for use in known) // len(known))
