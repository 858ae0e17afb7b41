"""How a scheduler process behaves: one frozen value, built by the command line."""

from dataclasses import dataclass, field
from typing import Literal

from gpuloom.engine.options import DeviceSort, Options, ScoreSlots
from gpuloom.scheduler.health import HandshakeProbe
from gpuloom.vendors.profile import Profile, load_nvidia

HandshakeCleanup = Literal["remove", "deleted"]
FilterWrite = Literal["bind", "inline"]
PrivilegedGpu = Literal["skip", "deny"]
FailedNodeReason = Literal["detail", "short"]
SimulationReply = Literal["best", "all"]


class SettingsError(ValueError):
    """A setting cannot be used; the message names the flag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Flags of the scheduler (scheduler 0.2) and its switches (scheduler 10); times in seconds.

    Addresses are ``host:port``, port 0 for a free one, empty for none. With both files the server speaks HTTPS.
    ``host_name`` is how leases name this replica; ``pod_name`` and ``pod_namespace`` are those of its own pod.
    """

    scheduler_name: str = "hami-scheduler"
    http_bind: str = "127.0.0.1:8080"
    cert_file: str = ""
    key_file: str = ""
    extender_bind: str = ""
    node_scheduler_policy: str = "binpack"
    gpu_scheduler_policy: str = "spread"
    device_sort: DeviceSort = "numa-first"
    device_score_slots: ScoreSlots = "nums"
    force_overwrite_default_scheduler: bool = True
    node_lock_timeout_s: float = 300.0
    node_lock_retry_timeout_s: float = 28.0
    node_pass_interval_s: float = 15.0
    pod_label: bool = True
    filter_write: FilterWrite = "bind"
    trust_annotations: bool = False
    strip_owned_keys: bool = True
    strict_quantities: bool = True
    privileged_gpu: PrivilegedGpu = "skip"
    exclusive_cores: bool = True
    admission_quota: bool = True
    no_request_event: bool = True
    failed_node_reason: FailedNodeReason = "detail"
    simulation_reply: SimulationReply = "best"
    node_label_selector: str = ""
    handshake_cleanup: HandshakeCleanup = "remove"
    handshake_probe: HandshakeProbe = "registered"
    metrics_bind_address: str = ""
    legacy_metrics: bool = False
    leader_elect: bool = False
    leader_elect_resource_name: str = ""
    leader_elect_resource_namespace: str = ""
    readyz_follower_503: bool = False
    host_name: str = ""
    pod_name: str = ""
    pod_namespace: str = ""
    profile: Profile = field(default_factory=load_nvidia)

    def __post_init__(self) -> None:
        """Refuse what cannot be used.

        Raises SettingsError.
        """
        _ = self.node_labels
        if self.leader_elect and not (self.leader_elect_resource_name and self.leader_elect_resource_namespace):
            raise SettingsError(
                "--leader-elect needs --leader-elect-resource-name and --leader-elect-resource-namespace"
            )
        if self.leader_elect and not self.host_name:
            raise SettingsError("empty hostname returned: --leader-elect finds its own lease by the host name")

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels that a node must have to be looked at.

        Raises SettingsError when ``node_label_selector`` is not of the form ``k=v,k2=v2``.
        """
        pairs = [pair.partition("=") for pair in self.node_label_selector.split(",") if pair.strip()]
        if any(not separator or not key.strip() for key, separator, _ in pairs):
            raise SettingsError(f"--node-label-selector {self.node_label_selector!r} is not of the form k=v,k2=v2")
        return {key.strip(): value.strip() for key, _, value in pairs}

    @property
    def options(self) -> Options:
        """How the engine decides."""
        return Options(
            node_policy=self.node_scheduler_policy,
            card_policy=self.gpu_scheduler_policy,
            device_sort=self.device_sort,
            device_score_slots=self.device_score_slots,
        )
