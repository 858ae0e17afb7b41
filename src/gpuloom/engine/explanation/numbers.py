"""The numbers behind a rejection, in one short clause: ``asks 20,000 MiB; 12,288 of 46,068 free``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuloom.engine.explanation.values import CardVerdict
from gpuloom.engine.filtering.rules import Compares, Rule
from gpuloom.model.request_columns import Headroom


@dataclass(frozen=True, slots=True)
class Asks:
    """What is asked of a card; memory in MiB, cores in per cent of the card.

    of_quota   the cores as quotas count them, with their unit
    headroom   what the namespace's quota leaves
    free_instance_mib  the largest part of a divided card that is still to be had, -1 for none
    """

    memory_mib: int
    cores: int
    of_quota: str
    headroom: Headroom
    free_instance_mib: int


def tell_numbers(rule: Rule, card: CardVerdict, asks: Asks) -> str:
    """Say which numbers stand behind a rule's rejection of a card, nothing where the reason says it all."""
    tell = _CLAUSES.get(rule.compares)
    return tell(card, asks) if tell else ""


def _kind(card: CardVerdict, _asks: Asks) -> str:
    return f"the card is {card.model} in mode {card.mode}" if card.mode else f"the card is {card.model}"


def _alone(card: CardVerdict, _asks: Asks) -> str:
    containers = "1 container is" if card.shares.used == 1 else f"{card.shares.used} containers are"
    return f"asks for the card alone; {containers} on it"


def _quota(_card: CardVerdict, asks: Asks) -> str:
    if asks.memory_mib > asks.headroom.memory_mib:
        return f"asks {asks.memory_mib:,} MiB; the namespace may take {max(asks.headroom.memory_mib, 0):,} more"
    return f"asks {asks.of_quota} of the cores; the namespace may take {max(asks.headroom.cores, 0)} more"


def _instance(_card: CardVerdict, asks: Asks) -> str:
    largest = asks.free_instance_mib
    free = f"the largest free part has {largest:,}" if largest > 0 else "no part free"
    return f"asks {asks.memory_mib:,} MiB; {free}"


_CLAUSES: Mapping[Compares, Callable[[CardVerdict, Asks], str]] = {
    Compares.KIND: _kind,
    Compares.SLOTS: lambda one, _: f"{one.shares.used} of {one.shares.total} shares taken",
    Compares.CONTAINERS: _alone,
    Compares.QUOTA: _quota,
    Compares.MEMORY: lambda one, asks: (
        f"asks {asks.memory_mib:,} MiB; {one.memory.free:,} of {one.memory.total:,} free"
    ),
    Compares.CORES: lambda one, asks: f"asks {asks.cores} % of the cores; {one.cores.free} of {one.cores.total} free",
    Compares.ALL_CORES: lambda one, _: f"all {one.cores.total} % of the cores are promised",
    Compares.INSTANCES: _instance,
}
