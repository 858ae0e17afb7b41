"""How a scheduler process behaves: one frozen value, built by the command line."""

from dataclasses import dataclass, field

from gpuloom.vendors.profile import Profile, load_nvidia


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Flags of the scheduler (scheduler 0.2); times in seconds.

    ``http_bind`` is ``host:port``, port 0 for a free one. With both files the server speaks HTTPS.
    """

    scheduler_name: str = "hami-scheduler"
    http_bind: str = "127.0.0.1:8080"
    cert_file: str = ""
    key_file: str = ""
    node_scheduler_policy: str = "binpack"
    gpu_scheduler_policy: str = "spread"
    force_overwrite_default_scheduler: bool = True
    node_lock_timeout_s: float = 300.0
    node_lock_retry_timeout_s: float = 28.0
    node_pass_interval_s: float = 15.0
    profile: Profile = field(default_factory=load_nvidia)
