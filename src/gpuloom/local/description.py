"""What a local cluster consists of, as a value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuloom.node.simulated import MachineDescription
from gpuloom.scheduler.flags import NodePolicy


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """A node: its name, its labels, and the machine that it is."""

    name: str
    machine: MachineDescription
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The nodes, and how the scheduler places by default (binpack or spread)."""

    nodes: tuple[NodeDescription, ...]
    scheduler_name: str = "hami-scheduler"
    node_scheduler_policy: NodePolicy = "binpack"
    gpu_scheduler_policy: str = "spread"
