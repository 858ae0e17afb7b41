"""The settings of one node's device plugin, wherever they come from (flags, files)."""

import os
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gpuloom.node.health import HealthSettings
from gpuloom.wire.device_config import MigAllowlist, MigGeometries
from gpuloom.wire.register import RegisterForm

ListStrategy = Literal["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"]
IdStrategy = Literal["uuid", "index"]
LimitOrder = Literal["annotation", "index"]
DriverPart = Literal["gdrcopy", "gds", "mofed"]
_MAKER = "NVIDIA"
OperatingMode = Literal["hami-core", "mig"]
MigStrategy = Literal["none", "single", "mixed"]


@dataclass(frozen=True, slots=True)
class InjectionSettings:
    """How containers are shown their cards (device plugin 5.1, 10.3 and 13); paths are the host's.

    ``driver_parts`` are shown beside the cards. ``device_specs`` hands out device files as well, found below
    ``dev_root``. ``driver_root_here`` is where this process sees ``driver_root``, if that is mounted.
    """

    list_strategies: tuple[ListStrategy, ...] = ("envvar",)
    id_strategy: IdStrategy = "uuid"
    device_specs: bool = False
    driver_root: str = "/"
    driver_root_here: str = "/driver-root"
    dev_root: str = "/"
    driver_parts: tuple[DriverPart, ...] = ()
    imex_channels: tuple[int, ...] = ()
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    cdi_hook_path: str = "/usr/bin/nvidia-cdi-hook"
    cdi_dir: str = "/var/run/cdi"

    @property
    def uses_cdi(self) -> bool:
        """Whether the container runtime gets names of CDI devices."""
        return any(strategy.startswith("cdi-") for strategy in self.list_strategies)

    @property
    def uses_only_cdi(self) -> bool:
        """Whether the container runtime gets nothing else."""
        return all(strategy.startswith("cdi-") for strategy in self.list_strategies)


@dataclass(frozen=True, slots=True)
class TimeSlicing:
    """How often each device of a resource is offered in NVIDIA's own way of sharing, by resource name.

    With ``refuses_many`` a container may have only one of them, because several may be the same card.
    """

    slices: Mapping[str, int] = field(default_factory=dict)
    refuses_many: bool = False


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Everything that one device plugin process is told; defaults are the chart's (device plugin 5).

    ``hook_path`` and ``lock_dir`` are paths of the host as containers get them mounted; this process finds them below
    ``host_root``. ``preconfigured_memory_mib`` is used only for cards that cannot tell their memory, 0 means unknown.
    ``mode`` says how cards are shared: by HAMi-core's limits, or divided (MIG) into what ``mig_allowlist`` allows;
    without an allowlist in the ways of ``mig_geometries``, as HAMi up to 2.9 does. ``mig_strategy`` says what becomes
    of the instances that an administrator made: nothing, or they are the node's cards (``single``), or each profile is
    a resource of its own beside the undivided cards (``mixed``). With ``node_wide_locks`` all containers lock in
    ``lock_dir`` of the host; otherwise each sees its own folder there. ``limit_order`` says whether limits are numbered
    as in the pod's annotation or by the cards' indexes. Without ``limit_whole_cards`` programs of a container that has
    its cards alone do not load the limiter, unless the pod says otherwise. ``own_lists`` are the annotations from which
    the plugins of a user's own vendors take what is to be allocated, where they share the node lock. ``pod_uid`` is the
    UID of the pod of this process, empty where it runs in none: then its node is locked for every pod (binding 9).
    """

    node_name: str
    plugins_dir: Path = Path("/var/lib/kubelet/device-plugins")
    host_root: Path = Path("/")
    hook_path: str = "/usr/local"
    lock_dir: Path = Path("/tmp/vgpulock")  # noqa: S108 - the place that HAMi-core looks at
    resource_name: str = "nvidia.com/gpu"
    mode: OperatingMode = "hami-core"
    mig_allowlist: tuple[MigAllowlist, ...] = ()
    mig_geometries: tuple[MigGeometries, ...] = ()
    mig_strategy: MigStrategy = "none"
    time_slicing: TimeSlicing = field(default_factory=TimeSlicing)
    register_format: RegisterForm = "json"
    report_handshake: bool = False
    report_topology: bool = False
    device_split_count: int = 10
    device_memory_scaling: float = 1.0
    device_core_scaling: float = 1.0
    preconfigured_memory_mib: int = 0
    filter_uuids: AbstractSet[str] = frozenset()
    filter_indexes: AbstractSet[int] = frozenset()
    enable_numa_topology: bool = False
    enable_preferred_allocation: bool = False
    disable_core_limit: bool = False
    lib_cuda_log_level: str = "1"
    limit_order: LimitOrder = "annotation"
    scheduler_name: str = "hami-scheduler"
    any_scheduler: bool = False
    node_wide_locks: bool = False
    limit_whole_cards: bool = True
    fail_on_init_error: bool = True
    own_lists: AbstractSet[str] = frozenset()
    pod_uid: str = ""
    injection: InjectionSettings = field(default_factory=InjectionSettings)
    health: HealthSettings = field(default_factory=HealthSettings)

    @property
    def hook_dir(self) -> str:
        """``<hook path>/vgpu``, on the host and in containers."""
        return os.path.join(self.hook_path, "vgpu")  # noqa: PTH118 - a path of the host, not of this process

    @property
    def containers_dir(self) -> str:
        """The folder of the containers' directories."""
        return os.path.join(self.hook_dir, "containers")  # noqa: PTH118 - a path of the host

    @property
    def library(self) -> str:
        """Where containers see the limiter's library, and where the host has it if it has no versioned one."""
        return os.path.join(self.hook_dir, "libvgpu.so")  # noqa: PTH118 - a path of the host

    @property
    def kubelet_socket(self) -> Path:
        """Where the kubelet takes registrations."""
        return self.plugins_dir / "kubelet.sock"

    @property
    def pod_resources_socket(self) -> Path:
        """Where the kubelet tells which pod holds which devices."""
        return self.plugins_dir.parent / "pod-resources" / "kubelet.sock"

    @property
    def plugin_socket(self) -> Path:
        """Where the plugin of the node's cards is served."""
        return self.find_socket(self.resource_name)

    @property
    def mig_lock(self) -> Path:
        """The file that tells the monitor not to use the driver while a card is being divided."""
        return self.on_this_side("/tmp/hami/hami-mig-apply.lock")  # noqa: S108 - where HAMi's monitor looks

    def name_model(self, name: str) -> str:
        """Return how a card of this product name is registered; csv forms always begin with the maker."""
        if self.register_format == "json" and name.startswith(_MAKER):
            return name
        return f"{_MAKER}-{name}"

    def find_socket(self, resource: str) -> Path:
        """Where a resource's plugin is served: ``nvidia-<part of the resource's name after the slash>.sock``."""
        return self.plugins_dir / f"nvidia-{resource.rpartition('/')[2]}.sock"

    def on_this_side(self, host_path: str | Path) -> Path:
        """Where this process sees a path of the host."""
        return self.host_root / str(host_path).lstrip("/")
