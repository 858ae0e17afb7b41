"""The numbers behind a rejection, in one short clause: ``asks 20,000 MiB; 12,288 of 46,068 free``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuloom.engine.explanation.values import Amount
from gpuloom.engine.filtering.rules import Compares, Rule
from gpuloom.model.request_columns import Headroom


@dataclass(frozen=True, slots=True)
class Facts:
    """One card and what is asked of it; memory in MiB, cores in per cent.

    free_instance_mib  the largest part of a divided card that is still to be had, -1 for none
    """

    kind: str
    numa: int
    shares: Amount
    memory: Amount
    cores: Amount
    free_instance_mib: int
    wants_mib: int
    wants_cores: int
    headroom: Headroom


def tell_numbers(rule: Rule, facts: Facts) -> str:
    """Say which numbers stand behind a rule's rejection of a card, nothing where the reason says it all."""
    tell = _CLAUSES.get(rule.compares)
    return tell(facts) if tell else ""


def _memory(facts: Facts) -> str:
    return f"asks {facts.wants_mib:,} MiB; {facts.memory.free:,} of {facts.memory.total:,} free"


def _cores(facts: Facts) -> str:
    return f"asks {facts.wants_cores} % of the cores; {facts.cores.free} of {facts.cores.total} free"


def _slots(facts: Facts) -> str:
    return f"{facts.shares.used} of {facts.shares.total} shares taken"


def _alone(facts: Facts) -> str:
    containers = "1 container is" if facts.shares.used == 1 else f"{facts.shares.used} containers are"
    return f"asks for the card alone; {containers} on it"


def _full(facts: Facts) -> str:
    return f"all {facts.cores.total} % of the cores are promised"


def _quota(facts: Facts) -> str:
    if facts.wants_mib > facts.headroom.memory_mib:
        return f"asks {facts.wants_mib:,} MiB; the namespace may take {max(facts.headroom.memory_mib, 0):,} more"
    return f"asks {facts.wants_cores} % of the cores; the namespace may take {max(facts.headroom.cores, 0)} more"


def _instance(facts: Facts) -> str:
    largest = (
        f"the largest free part has {facts.free_instance_mib:,}" if facts.free_instance_mib > 0 else "no part free"
    )
    return f"asks {facts.wants_mib:,} MiB; {largest}"


def _kind(facts: Facts) -> str:
    return f"the card is {facts.kind}"


_CLAUSES: Mapping[Compares, Callable[[Facts], str]] = {
    Compares.KIND: _kind,
    Compares.SLOTS: _slots,
    Compares.CONTAINERS: _alone,
    Compares.QUOTA: _quota,
    Compares.MEMORY: _memory,
    Compares.CORES: _cores,
    Compares.ALL_CORES: _full,
    Compares.INSTANCES: _instance,
}
