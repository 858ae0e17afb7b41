"""How a scheduler process behaves: one frozen value, built by the command line."""

from dataclasses import dataclass, field, fields
from functools import cached_property

from gpuloom.engine.request.demand import Demands, asks_for_cards, read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.scoring.fragmentation.pod_mix import PodMix
from gpuloom.scheduler.certificates.hosts import read_host
from gpuloom.scheduler.flags import SchedulerFlags
from gpuloom.vendors.catalog import Catalog, load_default_profiles, make_catalog
from gpuloom.vendors.owned import OwnedAnnotations, load_shipped_owned
from gpuloom.vendors.profile import Profile
from gpuloom.wire.keys import VGPU_NODE
from gpuloom.wire.objects import Pod


class SettingsError(ValueError):
    """A setting cannot be used; the message names the flag."""


@dataclass(frozen=True, kw_only=True)
class SchedulerSettings(SchedulerFlags):
    """The flags, and what is not said by flags.

    ``host_name`` is how leases name this replica. ``node_pass_interval_s`` is the pause between passes over the nodes.
    ``profiles`` are the configured vendors, of which the flags switch some on. ``workload`` are the pods that are to be
    expected, None where that is learned.
    """

    host_name: str = ""
    node_pass_interval_s: float = 15.0
    profiles: tuple[Profile, ...] = field(default_factory=load_default_profiles)
    workload: PodMix | None = None

    @classmethod
    def of_flags(
        cls, flags: SchedulerFlags, *, host_name: str, profiles: tuple[Profile, ...], workload: PodMix | None = None
    ) -> "SchedulerSettings":
        """Make settings of flags.

        Raises SettingsError when they cannot be used, ProfileError when profiles clash.
        """
        values = {one.name: getattr(flags, one.name) for one in fields(flags)}
        return cls(**values, host_name=host_name, profiles=profiles, workload=workload)

    @cached_property
    def catalog(self) -> Catalog:
        """The vendors that are served."""
        switches = {
            "enable-ascend": self.enable_ascend,
            "enable-iluvatar": self.enable_iluvatar,
            "metax-same-card": self.metax_same_card,
            "ascend-round-unseen": self.ascend_round_unseen,
            "neuron-core-ids": self.neuron_core_ids,
        }
        return make_catalog(self.profiles, (name for name, is_on in switches.items() if is_on))

    @cached_property
    def owned_annotations(self) -> OwnedAnnotations:
        """The pod annotations that only a scheduler may write, also those of shipped vendors that are not served.

        A pod that carries them from another cluster would meet the chart's policy, which protects them all.
        """
        return load_shipped_owned() | OwnedAnnotations.of(self.catalog)

    def __post_init__(self) -> None:
        """Refuse what cannot be used.

        Raises SettingsError.
        """
        _ = self.node_labels
        if not self.avoided_labels and self.avoiding_namespaces:
            raise SettingsError("--cpu-pods-namespaces belongs to --cpu-pods-avoid")
        _ = self.tls_secret
        _ = self.webhook_clients
        _ = self.catalog
        if self.preemption_most_plans < 1:
            raise SettingsError("--preemption-most-plans must be 1 or more; --preemption=off makes no room at all")
        if self.defragmentation_most_moves < 1:
            raise SettingsError("--defragmentation-most-moves must be 1 or more; --defragmentation=off moves no pods")
        if min(self.defragmentation_wait_s, self.defragmentation_interval_s, self.defragmentation_timeout_s) <= 0:
            raise SettingsError("--defragmentation-wait, -interval and -timeout must be more than nothing, such as 10m")
        if self.node_choice == "scheduler" and self.filter_write == "inline":
            raise SettingsError(
                "--node-choice=scheduler needs --filter-write=bind: "
                "a decision that stands on the pod before it is bound names one node"
            )
        if self.workload_window_s <= 0 or self.workload_interval_s <= 0:
            raise SettingsError("--workload-window and --workload-interval must be more than nothing, such as 10m")
        if self.leader_elect and not (self.leader_elect_resource_name and self.leader_elect_resource_namespace):
            raise SettingsError(
                "--leader-elect needs --leader-elect-resource-name and --leader-elect-resource-namespace"
            )
        if self.leader_elect and not self.host_name:
            raise SettingsError("empty hostname returned: --leader-elect finds its own lease by the host name")

    @property
    def webhook_clients(self) -> frozenset[str]:
        """The common names of those who may call the webhook, empty for all who have a certificate.

        Raises SettingsError when nobody would be asked for one.
        """
        names = frozenset(name.strip() for name in self.webhook_client_names.split(",")) - {""}
        if names and not self.webhook_client_ca:
            raise SettingsError("--webhook-client-names belongs to --webhook-client-ca")
        if self.webhook_client_ca and not (self.tls_self_manage or self.cert_file):
            raise SettingsError(
                "--webhook-client-ca needs HTTPS: give --tls-self-manage, or --cert_file and --key_file"
            )
        return names

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels that a node must have to be looked at.

        Raises SettingsError when ``node_label_selector`` is not of the form ``k=v,k2=v2``.
        """
        return _read_labels("--node-label-selector", self.node_label_selector)

    @property
    def avoided_labels(self) -> dict[str, str]:
        """The labels of nodes that pods without cards are to leave alone, empty for none.

        Raises SettingsError when ``cpu_pods_avoid`` is not of the form ``k=v,k2=v2``.
        """
        return _read_labels("--cpu-pods-avoid", self.cpu_pods_avoid)

    @property
    def avoiding_namespaces(self) -> frozenset[str]:
        """The namespaces whose pods are asked to, empty for all."""
        return _read_list(self.cpu_pods_namespaces)

    @property
    def tls_secret(self) -> tuple[str, str]:
        """Namespace and name of the Secret of ``tls_self_manage``; both empty without one.

        Raises SettingsError when the flags about it do not go together.
        """
        if not self.tls_self_manage:
            if self.tls_hosts or self.tls_webhook:
                raise SettingsError("--tls-hosts and --tls-webhook belong to --tls-self-manage")
            return "", ""
        namespace, _, name = self.tls_self_manage.rpartition("/")
        namespace = namespace or self.pod_namespace
        if not namespace or not name:
            raise SettingsError(f"--tls-self-manage {self.tls_self_manage}: say in which namespace, namespace/name")
        if self.cert_file or self.key_file:
            raise SettingsError("give either --tls-self-manage or --cert_file and --key_file")
        if not self.tls_host_names:
            raise SettingsError("--tls-self-manage needs --tls-hosts, such as gpuloom-scheduler.kube-system.svc")
        return namespace, name

    @property
    def tls_host_names(self) -> frozenset[str]:
        """The hosts of ``tls_hosts``, as certificates spell them.

        Raises SettingsError when no certificate can name one of them.
        """
        try:
            return frozenset(read_host(host.strip()) for host in self.tls_hosts.split(",") if host.strip())
        except ValueError as error:
            raise SettingsError(f"--tls-hosts: {error}") from error

    @property
    def spared_namespaces(self) -> frozenset[str]:
        """The namespaces whose pods are never evicted for others."""
        return _read_list(self.preemption_spares)

    @property
    def rival_names(self) -> frozenset[str]:
        """The names of leases by which another scheduler of cards is known."""
        return _read_list(self.rival_lease_names) | {self.leader_elect_resource_name}

    @property
    def rival_namespaces(self) -> frozenset[str]:
        """The namespaces where such a lease keeps this process from deciding."""
        return _read_list(self.rival_lease_namespaces) | {self.leader_elect_resource_namespace}

    @cached_property
    def options(self) -> Options:
        """How the engine decides."""
        return Options(
            node_policy=self.node_scheduler_policy,
            card_policy=self.gpu_scheduler_policy,
            device_sort=self.device_sort,
            device_score_slots=self.device_score_slots,
            quota_in_fit=self.quota_in_fit,
            topology_score_sign=self.topology_score_sign,
        )

    def asks_for_cards(self, pod: Pod) -> bool:
        """Tell whether a pod asks for cards at all."""
        return asks_for_cards(pod, self.catalog)

    def concerns(self, pod: Pod) -> bool:
        """Tell whether a pod asks for cards, or says that it was given some."""
        return VGPU_NODE in pod.annotations or self.asks_for_cards(pod)

    def read_demands(self, pod: Pod) -> Demands:
        """Read what a pod asks of each vendor, under the process's policies.

        Raises PolicyError when a pod that asks for cards has weights that cannot be read, or wishes that are too long.
        """
        return read_demands(pod, self.catalog, self.options)


def _read_list(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(",") if word.strip())


def _read_labels(flag: str, text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    if any(not separator or not key.strip() for key, separator, _ in pairs):
        raise SettingsError(f"{flag} {text!r} is not of the form k=v,k2=v2")
    return {key.strip(): value.strip() for key, _, value in pairs}
