"""How much of cards is really used: values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from gpuloom.web.views.values import CardView


class CardUtilization(msgspec.Struct, frozen=True, rename="camel"):
    """What the driver says of cards: memory in use (MiB) and how busy they are (per cent), None where not known."""

    memory_mib: int | None
    busy: int | None


@dataclass(frozen=True, slots=True)
class Uses:
    """Use by the card's UUID, and what kept us from knowing all of it."""

    by_uuid: Mapping[str, CardUtilization]
    problem: str = ""


def read_shown(card: CardView) -> CardUtilization | None:
    """Return what the scheduler's pages show of a card, None where they know nothing."""
    used = card.used
    if used is None or (used.memory is None and used.busy_percent is None):
        return None
    return CardUtilization(used.memory.used if used.memory else None, used.busy_percent)


def sum_uses(uses: Iterable[CardUtilization]) -> CardUtilization | None:
    """Return memory in sum and how busy the cards are on average, None of no card."""
    known = list(uses)
    if not known:
        return None
    memory = [use.memory_mib for use in known if use.memory_mib is not None]
    busy = [use.busy for use in known if use.busy is not None]
    return CardUtilization(sum(memory) if memory else None, sum(busy) // len(busy) if busy else None)
