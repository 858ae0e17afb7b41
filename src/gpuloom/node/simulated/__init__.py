"""A simulated machine behind the NVML interface: cards, links and faults that a TOML file describes."""

from gpuloom.node.simulated.description import (
    CardGroup,
    MachineDescription,
    SimulatedFault,
    load_machine,
    parse_machine,
    shipped_machines,
)
from gpuloom.node.simulated.machine import SimulatedMachine

__all__ = [
    "CardGroup",
    "MachineDescription",
    "SimulatedFault",
    "SimulatedMachine",
    "load_machine",
    "parse_machine",
    "shipped_machines",
]
