"""The settings of one node's device plugin. Where they come from (flags, files) is not known here."""

import os
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from gpuloom.wire.register import RegisterForm


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Everything that one device plugin process is told; defaults are the chart's (device plugin 5).

    ``hook_path`` and ``lock_dir`` are paths of the host as containers get them mounted; this process finds them below
    ``host_root``. ``preconfigured_memory_mib`` is used only for cards that cannot tell their memory, 0 means unknown.
    """

    node_name: str
    plugins_dir: Path = Path("/var/lib/kubelet/device-plugins")
    host_root: Path = Path("/")
    hook_path: str = "/usr/local"
    lock_dir: Path = Path("/tmp/vgpulock")  # noqa: S108 - the place that HAMi-core looks at
    resource_name: str = "nvidia.com/gpu"
    register_format: RegisterForm = "json"
    device_split_count: int = 10
    device_memory_scaling: float = 1.0
    device_core_scaling: float = 1.0
    preconfigured_memory_mib: int = 0
    filter_uuids: AbstractSet[str] = frozenset()
    filter_indexes: AbstractSet[int] = frozenset()
    enable_numa_topology: bool = False
    disable_core_limit: bool = False
    lib_cuda_log_level: str = "1"
    scheduler_name: str = "hami-scheduler"
    any_scheduler: bool = False

    @property
    def hook_dir(self) -> str:
        """``<hook path>/vgpu``, on the host and in containers."""
        return os.path.join(self.hook_path, "vgpu")  # noqa: PTH118 - a path of the host, not of this process

    @property
    def library(self) -> str:
        """The limiter's library on the host, and where containers see it."""
        return os.path.join(self.hook_dir, "libvgpu.so")  # noqa: PTH118

    @property
    def kubelet_socket(self) -> Path:
        """Where the kubelet takes registrations."""
        return self.plugins_dir / "kubelet.sock"

    @property
    def plugin_socket(self) -> Path:
        """Where this plugin is served: ``nvidia-<part of the resource name after the slash>.sock``."""
        return self.plugins_dir / f"nvidia-{self.resource_name.rpartition('/')[2]}.sock"

    def on_this_side(self, host_path: str | Path) -> Path:
        """Where this process sees a path of the host."""
        return self.host_root / str(host_path).lstrip("/")
