"""The numbers behind a rejection, in one short clause: ``asks 20,000 MiB; 12,288 of 46,068 free``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuloom.engine.explanation.values import Amount
from gpuloom.engine.filtering.rules import Compares, Rule
from gpuloom.model.request_columns import Headroom


@dataclass(frozen=True, slots=True)
class Facts:
    """One card and what is asked of it; memory in MiB, cores in per cent of the card.

    free_instance_mib  the largest part of a divided card that is still to be had, -1 for none
    wants_of_quota     the cores that are asked for as quotas count them, with their unit
    """

    kind: str
    numa: int
    shares: Amount
    memory: Amount
    cores: Amount
    free_instance_mib: int
    wants_mib: int
    wants_cores: int
    wants_of_quota: str
    headroom: Headroom


def tell_numbers(rule: Rule, facts: Facts) -> str:
    """Say which numbers stand behind a rule's rejection of a card, nothing where the reason says it all."""
    tell = _CLAUSES.get(rule.compares)
    return tell(facts) if tell else ""


def _alone(facts: Facts) -> str:
    containers = "1 container is" if facts.shares.used == 1 else f"{facts.shares.used} containers are"
    return f"asks for the card alone; {containers} on it"


def _quota(facts: Facts) -> str:
    if facts.wants_mib > facts.headroom.memory_mib:
        return f"asks {facts.wants_mib:,} MiB; the namespace may take {max(facts.headroom.memory_mib, 0):,} more"
    return f"asks {facts.wants_of_quota} of the cores; the namespace may take {max(facts.headroom.cores, 0)} more"


def _instance(facts: Facts) -> str:
    largest = facts.free_instance_mib
    free = f"the largest free part has {largest:,}" if largest > 0 else "no part free"
    return f"asks {facts.wants_mib:,} MiB; {free}"


_CLAUSES: Mapping[Compares, Callable[[Facts], str]] = {
    Compares.KIND: lambda one: f"the card is {one.kind}",
    Compares.SLOTS: lambda one: f"{one.shares.used} of {one.shares.total} shares taken",
    Compares.CONTAINERS: _alone,
    Compares.QUOTA: _quota,
    Compares.MEMORY: lambda one: f"asks {one.wants_mib:,} MiB; {one.memory.free:,} of {one.memory.total:,} free",
    Compares.CORES: lambda one: f"asks {one.wants_cores} % of the cores; {one.cores.free} of {one.cores.total} free",
    Compares.ALL_CORES: lambda one: f"all {one.cores.total} % of the cores are promised",
    Compares.INSTANCES: _instance,
}
