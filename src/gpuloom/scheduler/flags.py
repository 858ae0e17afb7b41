"""The flags of the scheduler (scheduler 0.2) and its switches (scheduler 10): name, type, default, meaning, once.

The command line is made of this class, settings are this class with what the environment adds, and recordings write and
read its fields. Names are HAMi's where HAMi has the flag, so that its chart can start this scheduler. Switches restore
HAMi's behaviour where gpuloom's differs; the first word of a switch is its default.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from gpuloom.engine.request.options import QuotaInFit, ScoreSign, ScoreSlots
from gpuloom.engine.scoring.card_order import DeviceSort
from gpuloom.engine.scoring.policies import PolicyWord
from gpuloom.scheduler.durations import format_seconds, parse_seconds
from gpuloom.scheduler.nodes.health import HandshakeProbe
from gpuloom.wire.schedulers import HAMI_LEASE, HAMI_NAMESPACES

HandshakeCleanup = Literal["remove", "deleted"]
FilterWrite = Literal["bind", "inline"]
NodeChoice = Literal["extender", "scheduler"]
OnUnreadable = Literal["close", "ignore"]
LockWait = Literal["all", "group-only"]
NodeLockUse = Literal["auto", "always"]
OnOrOff = Literal["off", "on"]
OnBudget = Literal["prefer", "strict"]
PrivilegedGpu = Literal["skip", "deny"]
FailedNodeReason = Literal["detail", "short"]
RefusedNodes = Literal["unresolvable", "failed"]
SimulationReply = Literal["best", "all"]

Seconds = Annotated[
    float, Parameter(converter=lambda _, tokens: parse_seconds(tokens[0].value), show_default=format_seconds)
]
"""A time in seconds; on the command line as Go writes it, such as 5m or 1h5m0s, or a bare number."""


@dataclass(frozen=True, kw_only=True)
class SchedulerFlags:
    """All flags. Addresses are ``host:port``: without a host on all interfaces, port 0 for a free one."""

    # Where the process listens.

    http_bind: Annotated[str, Parameter(name="--http_bind")] = "127.0.0.1:8080"
    """Address to listen on, host:port; port 0 for a free one."""
    cert_file: Annotated[str, Parameter(name="--cert_file")] = ""
    """Certificate for HTTPS, read again when it changes; needs --key_file too. Without both the server speaks HTTP."""
    key_file: Annotated[str, Parameter(name="--key_file")] = ""
    """Key of the certificate."""
    tls_self_manage: str = ""
    """Secret, name or namespace/name, in which replicas share a certificate that they make and renew themselves."""
    tls_hosts: str = ""
    """DNS names and addresses of that certificate, such as gpuloom.kube-system.svc; with commas."""
    webhook_client_ca: str = ""
    """File with authorities (PEM): /webhook is answered only to callers with a certificate of one of them."""
    webhook_client_names: str = ""
    """Common names of these certificates that count, with commas; empty for all."""
    tls_webhook: str = ""
    """MutatingWebhookConfiguration that is told whom to trust; empty when there is none."""
    extender_bind: str = ""
    """Loopback address for kube-scheduler's calls; /filter and /bind then answer only there."""
    extender_on_main_port: bool = False
    """Whether the main port, without --extender-bind, answers /filter and /bind to everybody, as HAMi's does; else only
    to callers on this machine or in this pod."""
    metrics_bind_address: str = ":9395"
    """Address of the metrics, empty for none."""
    metrics_auth: bool = False
    """Whether the metrics are served by HTTPS, to those alone whose token may get /metrics."""
    legacy_metrics: bool = False
    """Whether the metrics have HAMi's old names as well."""
    profiling: bool = False
    """Whether the main port tells what the process does below /debug/pprof/, to those whose token may get that path;
    on a loopback address to everybody there."""
    debug: bool = False
    """Whether to log in detail."""

    # How the API server is called.

    kube_qps: float = 0.0
    """Most calls a second to the API server, 0 for no limit; locks, bindings, events and leases are counted apart."""
    kube_burst: int = 0
    """How many calls may come at once before --kube-qps counts; 0 for as many as that."""
    kube_timeout_s: Annotated[Seconds, Parameter(name="--kube-timeout")] = 0.0
    """Longest time for one call; 0 for the built-in limits. A write never takes longer than 4s."""

    # Whose pods are served, and how nodes and cards are chosen.

    scheduler_name: str = ""
    """Name that pods with cards get as their scheduler; empty leaves theirs."""
    node_scheduler_policy: PolicyWord = "binpack"
    """How nodes are chosen unless a pod says otherwise."""
    gpu_scheduler_policy: str = "spread"
    """How cards are chosen unless a pod says otherwise; fragmentation for nodes chooses cards too."""
    node_choice: NodeChoice = "extender"
    """Whether the extender chooses the node, or names and scores all that fit, and kube-scheduler chooses."""
    workload_window_s: Annotated[Seconds, Parameter(name="--workload-window")] = 604_800.0
    """The policy fragmentation learns which pods to expect: after this long a pod counts half, such as 168h."""
    workload_interval_s: Annotated[Seconds, Parameter(name="--workload-interval")] = 600.0
    """How often it may expect other pods, such as 10m."""
    count_node_cpu: bool = True
    """Whether it counts the CPU that pods request of nodes, or takes that for endless."""
    force_overwrite_default_scheduler: bool = True
    """Whether pods that name the default scheduler are taken over."""
    enable_ascend: bool = False
    """Whether Huawei Ascend cards are served."""
    enable_iluvatar: bool = False
    """Whether Iluvatar cards are served, by a set of resources for each chip."""
    node_label_selector: str = ""
    """Only nodes with these labels are looked at, k=v,k2=v2."""

    cpu_pods_avoid: str = ""
    """Labels of nodes, k=v,k2=v2, that pods without cards are asked to leave alone while others have room; empty for
    none."""
    cpu_pods_namespaces: str = ""
    """Namespaces whose pods are asked to, with commas; empty for all."""

    # Who makes room for whom.

    preemption: OnOrOff = "off"
    """Whether pods are evicted to make room for pods of higher priority."""
    preemption_budgets: OnBudget = "prefer"
    """Whether a pod whose eviction a PodDisruptionBudget forbids is evicted where nothing else helps, or never."""
    preemption_most_plans: int = 10
    """For so many pods of a priority or above room is made at a time."""
    preemption_spares: str = ""
    """Namespaces whose pods are never evicted for others, with commas."""
    preemption_min_age_s: Annotated[Seconds, Parameter(name="--preemption-min-age")] = 0.0
    """A pod is not evicted for others so soon after it got its cards, such as 10m."""

    defragmentation: OnOrOff = "off"
    """Whether pods are moved to make room for others that wait long."""
    defragmentation_wait_s: Annotated[Seconds, Parameter(name="--defragmentation-wait")] = 600.0
    """A pod that waits longer has others moved for it, and again after as long; such as 10m."""
    defragmentation_interval_s: Annotated[Seconds, Parameter(name="--defragmentation-interval")] = 60.0
    """How often it is looked for such pods; for one of them at a time, such as 1m."""
    defragmentation_most_moves: int = 5
    """More pods than these are not moved for one; one pod moves at a time."""
    defragmentation_timeout_s: Annotated[Seconds, Parameter(name="--defragmentation-timeout")] = 300.0
    """So long at most until an evicted pod is gone, and again until the one made anew runs; then no other moves."""

    # How long the lock of a node counts and is waited for.

    node_lock_timeout_s: Annotated[Seconds, Parameter(name="--node-lock-timeout", env_var="HAMI_NODELOCK_EXPIRE")] = (
        300.0
    )
    """After this long the lock of a node no longer counts, such as 5m, unless its pod waits for the device plugin."""
    node_lock_retry_timeout_s: Annotated[Seconds, Parameter(name="--node-lock-retry-timeout")] = 28.0
    """How long a bind waits for the lock of its node, such as 28s; 0 for not at all."""

    # Which of several replicas decides.

    leader_elect: bool = False
    """Whether to follow the lease of the kube-scheduler beside this process."""
    leader_elect_resource_name: str = ""
    """Name of that lease."""
    leader_elect_resource_namespace: str = ""
    """Namespace of that lease."""
    rival_lease_namespaces: str = ",".join(HAMI_NAMESPACES)
    """Namespaces besides that one where a living lease of another scheduler of cards keeps this one from deciding."""
    rival_lease_names: str = HAMI_LEASE
    """Names of such leases, besides the one that is followed; with commas."""
    readyz_follower_503: Annotated[bool, Parameter(name="--readyz-follower-503")] = False
    """Whether replicas that do not decide are unready."""
    pod_name: Annotated[str, Parameter(env_var="POD_NAME")] = ""
    """Name of the pod of this process, for the label that tells the leader."""
    pod_namespace: Annotated[str, Parameter(env_var="POD_NAMESPACE")] = ""
    """Namespace of that pod."""

    # Switches: where sources of the behaviour differ.

    device_sort: DeviceSort = "numa-first"
    """Whether cards are tried by NUMA node or by score first."""
    device_score_slots: ScoreSlots = "nums"
    """Whether a card's score counts all cards asked for or one slot."""
    filter_write: FilterWrite = "bind"
    """Whether a decision is written with the binding, or by the filter call as HAMi does."""
    trust_annotations: bool = False
    """Whether the annotations of a pod that is not bound count as usage."""
    unreadable: OnUnreadable = "close"
    """Whether cards are closed that a pod may hold in a way that cannot be read, or given away as in HAMi."""
    lock_wait: LockWait = "all"
    """Whether every pod waits for the lock of its node, or only members of pod groups as in HAMi."""
    node_lock: NodeLockUse = "auto"
    """Whether nodes whose device plugin is gpuloom's do without the lock, or every node is locked as in HAMi."""
    strip_owned_keys: bool = True
    """Whether the webhook removes annotations from new pods that only gpuloom may write."""
    strict_quantities: bool = True
    """Whether the webhook denies amounts that cannot be given."""
    privileged_gpu: PrivilegedGpu = "skip"
    """Whether privileged containers are left alone, or pods with them and cards denied."""
    exclusive_cores: bool = True
    """Whether a container that asks for a whole card's memory gets all of its cores."""
    admission_quota: bool = True
    """Whether the webhook denies pods that exceed a resource quota."""
    no_request_event: bool = True
    """Whether a pod that asks for no card is told so in an event."""
    failed_node_reason: FailedNodeReason = "detail"
    """Whether replies say why a node does not fit."""
    refused_nodes: RefusedNodes = "unresolvable"
    """Whether replies say that evicting pods would not help where no card fits, or let kube-scheduler try as HAMi."""
    simulation_reply: SimulationReply = "best"
    """Whether a simulation names the best node or all that fit."""
    handshake_cleanup: HandshakeCleanup = "remove"
    """What is left of the handshake of a node whose plugin is gone."""
    handshake_probe: HandshakeProbe = "registered"
    """Which nodes are asked whether their plugin lives."""
    quota_in_fit: QuotaInFit = "all"
    """Whether quotas count when cards of any vendor are chosen, or only of those for which HAMi looks at them."""
    topology_score_sign: ScoreSign = "fixed"
    """Whether better linked cards make a node better under the policy spread too, or worse as in HAMi."""
    metax_same_card: bool = True
    """Whether all containers of a pod must get the same Metax whole card, which two never can."""
    ascend_round_unseen: bool = True
    """Whether Ascend pods that no webhook saw count with the template that they get, or as they ask, as in HAMi."""
    neuron_core_ids: bool = True
    """Whether AWS_NEURON_IDS lists cores alone where a container asks for cores, or devices among them as in HAMi."""
    mlu_default_cores: bool = False
    """Whether a container that names only a count of MLUs gets the cores of whole cards named."""
    pod_label: bool = True
    """Whether bound pods get the label hami.io/vgpu-node."""
