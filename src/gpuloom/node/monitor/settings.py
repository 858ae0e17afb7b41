"""The settings of one node's monitor, wherever they come from."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """Everything that one monitor process is told; paths are as this process sees them (device plugin 16.1).

    ``hook_path`` is the folder of ``containers``. ``resync_interval_s`` is how long the directory of an unknown pod is
    kept. ``proc_dir`` must be the host's, so that the audit can find the pod of a process.
    """

    node_name: str
    hook_path: Path = Path("/usr/local/vgpu")
    metrics_bind_address: str = ":9394"
    metrics_auth: bool = False
    legacy_metrics: bool = True
    resync_interval_s: float = 300.0
    period_s: float = 5.0
    audit_period_s: float = 30.0
    resource_name: str = "nvidia.com/gpu"
    priority_name: str = "nvidia.com/priority"
    mig_lock: Path = Path("/tmp/hami/hami-mig-apply.lock")  # noqa: S108 - where HAMi's plugin puts it
    pod_resources_socket: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    proc_dir: Path = Path("/proc")

    @property
    def containers_dir(self) -> Path:
        """The folder of the containers' directories."""
        return self.hook_path / "containers"
