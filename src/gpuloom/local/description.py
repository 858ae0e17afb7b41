"""What a local cluster consists of, as a value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuloom.engine.scoring.policies import PolicyWord
from gpuloom.local.vendornode import VendorMachine
from gpuloom.node.nvml import Nvml
from gpuloom.node.settings import InjectionSettings
from gpuloom.node.simulated import MachineDescription
from gpuloom.scheduler.flags import OnOrOff
from gpuloom.vendors.catalog import Catalog, load_default_profiles, make_catalog
from gpuloom.vendors.profile import Profile


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """A node: its name, its labels, and the machine that it is; or whose cards it has, such as those of this one.

    ``injection`` is how its containers are shown their cards.
    """

    name: str
    machine: MachineDescription | Nvml
    labels: Mapping[str, str] = field(default_factory=dict)
    injection: InjectionSettings = field(default_factory=InjectionSettings)


@dataclass(frozen=True, slots=True)
class VendorNodeDescription:
    """A node with cards that are not gpuloom's to hand out: its name, its labels, and what its plugins tell."""

    name: str
    machine: VendorMachine
    labels: Mapping[str, str] = field(default_factory=dict)


_FLAGS = ("enable-ascend", "enable-iluvatar")


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The nodes, the families that the scheduler serves, and how it places by default.

    preemption  whether it evicts pods for those of higher priority
    """

    nodes: tuple[NodeDescription, ...]
    vendor_nodes: tuple[VendorNodeDescription, ...] = ()
    profiles: tuple[Profile, ...] = field(default_factory=load_default_profiles)
    scheduler_name: str = "hami-scheduler"
    node_scheduler_policy: PolicyWord = "binpack"
    gpu_scheduler_policy: str = "spread"
    preemption: OnOrOff = "off"

    @property
    def catalog(self) -> Catalog:
        """The families that the scheduler serves."""
        return make_catalog(self.profiles, _FLAGS)
