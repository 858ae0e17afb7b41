"""Judges the kube-scheduler beside gpuloom: does it ask gpuloom, about the right pods, at the right place. Pure."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from gpuloom.doctor.checks import UnseenError
from gpuloom.doctor.cluster.facts import ClusterFacts
from gpuloom.doctor.cluster.installation import ExtenderFlags, KubeScheduler, port_of
from gpuloom.doctor.cluster.objects import ExtenderConfig, SchedulerConfiguration
from gpuloom.doctor.findings import Fault, Problem, Severity
from gpuloom.scheduler.durations import parse_seconds
from gpuloom.vendors.profile import Profile

_GROUP = "kubescheduler.config.k8s.io"
_SERVED = {"v1": (25, 999), "v1beta3": (23, 28), "v1beta2": (22, 27), "v1beta1": (19, 22)}
"""Minor versions of Kubernetes, first and last, whose kube-scheduler reads each version of its configuration."""

_KUBE_TIMEOUT_S = 30.0
MARGIN_S = 1.0


def judge_kube_scheduler(facts: ClusterFacts) -> Iterator[Problem]:
    """Say why kube-scheduler would not ask gpuloom, or not about every pod with cards."""
    scheduler, flags = facts.kube_scheduler, facts.flags
    if scheduler is None or flags is None:
        raise UnseenError("no pod of the scheduler has kube-scheduler and gpuloom in it, see check scheduler")
    if scheduler.configuration is None:
        text = f"its configuration cannot be read: {scheduler.error}"
        yield _complain(scheduler, text, "correct it and restart the pod")
        return
    yield from _judge_version(scheduler, scheduler.configuration)
    yield from _judge_names(scheduler, scheduler.configuration, flags)
    extender = next((one for one in scheduler.configuration.extenders if one.filter_verb == "filter"), None)
    if extender is None:
        text = "it names no extender with filterVerb filter, so cards are not looked at"
        yield _complain(scheduler, text, "add gpuloom as the chart does")
        return
    yield from _judge_extender(scheduler, extender, flags)
    yield from _judge_resources(scheduler, extender, facts)


def judge_device_configuration(facts: ClusterFacts) -> Iterator[Problem]:
    """Say why the installation's device configuration cannot be read."""
    if facts.catalog_error:
        remedy = "correct it: neither scheduler nor device plugin start like this"
        yield Problem("device configuration", facts.catalog_error, Fault.INSTALLATION, remedy)


def _judge_version(scheduler: KubeScheduler, configuration: SchedulerConfiguration) -> Iterator[Problem]:
    group, _, version = configuration.api_version.partition("/")
    first, last = _SERVED.get(version, (0, 0)) if group == _GROUP else (0, 0)
    right = "v1" if scheduler.minor >= _SERVED["v1"][0] else "v1beta2"
    if not last:
        text = f"its apiVersion {configuration.api_version!r} is none that kube-scheduler knows"
        yield _complain(scheduler, text, f"write {_GROUP}/v1 (before Kubernetes 1.25: v1beta2)")
    elif scheduler.minor and not first <= scheduler.minor <= last:
        text = f"kube-scheduler 1.{scheduler.minor} does not read its apiVersion {configuration.api_version}"
        yield _complain(scheduler, text, f"write {_GROUP}/{right}, and use the cluster's version of kube-scheduler")


def _judge_names(
    scheduler: KubeScheduler, configuration: SchedulerConfiguration, flags: ExtenderFlags
) -> Iterator[Problem]:
    names = [profile.scheduler_name for profile in configuration.profiles]
    if flags.scheduler_name not in names:
        text = f"it serves {', '.join(names)}, but the webhook sends pods to {flags.scheduler_name!r}"
        yield _complain(scheduler, text, "give profiles and --scheduler-name one name")
    election = configuration.leader_election
    if flags.leader_elect and not election.leader_elect:
        text = "it elects no leader, but gpuloom follows its lease and decides nothing without"
        yield _complain(scheduler, text, "set leaderElection.leaderElect, or take --leader-elect away")
    elif flags.leader_elect and (election.resource_namespace, election.resource_name) != (
        flags.lease_namespace,
        flags.lease_name,
    ):
        ours = f"{flags.lease_namespace}/{flags.lease_name}"
        text = f"its lease is {election.resource_namespace}/{election.resource_name}, but gpuloom follows {ours}"
        yield _complain(scheduler, text, "give leaderElection and --leader-elect-resource-... one name and namespace")


def _judge_extender(scheduler: KubeScheduler, extender: ExtenderConfig, flags: ExtenderFlags) -> Iterator[Problem]:
    url = urlsplit(extender.url_prefix)
    wanted = f"{'https' if flags.is_https else 'http'}://127.0.0.1:{port_of(flags.address)}"
    port = port_of(extender.url_prefix, default=443 if url.scheme == "https" else 80)
    if (url.scheme, port, url.path.rstrip("/")) != ("https" if flags.is_https else "http", port_of(flags.address), ""):
        text = f"it asks {extender.url_prefix!r}, but gpuloom answers at {wanted}"
        yield _complain(scheduler, text, f"set urlPrefix to {wanted}")
    tls = extender.tls_config
    if url.scheme == "https" and not (tls.insecure or tls.ca_file or tls.ca_data):
        text = "it has no way to recognize gpuloom's certificate, so every call fails"
        yield _complain(scheduler, text, "set tlsConfig.caFile, or tlsConfig.insecure on loopback")
    if extender.bind_verb != "bind":
        text = f"its bindVerb is {extender.bind_verb!r}, so pods are bound without cards"
        yield _complain(scheduler, text, "set bindVerb: bind")
    if extender.preempt_verb != "preempt":
        text = f"its preemptVerb is {extender.preempt_verb!r}, so it evicts pods for CPU also where cards never fit"
        yield _complain(scheduler, text, "set preemptVerb: preempt", Severity.WARNING)
    if flags.node_choice == "scheduler" and extender.prioritize_verb != "prioritize":
        text = f"its prioritizeVerb is {extender.prioritize_verb!r}, so it chooses nodes without gpuloom's scores"
        yield _complain(scheduler, text, "set prioritizeVerb: prioritize, or --node-choice=extender", Severity.WARNING)
    if not extender.node_cache_capable:
        text = "nodeCacheCapable is not set, so whole nodes are sent with every question, and that is slow"
        yield _complain(scheduler, text, "set nodeCacheCapable: true", Severity.WARNING)
    timeout_s = _read_timeout_s(extender)
    if timeout_s is not None and timeout_s < flags.lock_wait_s + MARGIN_S:
        text = f"httpTimeout is {timeout_s:g} s, but a bind may wait {flags.lock_wait_s:g} s for its node's lock"
        remedy = f"set httpTimeout to {flags.lock_wait_s + 2:g}s or more, or --node-lock-retry-timeout to less"
        yield _complain(scheduler, text, remedy, Severity.WARNING)


def _judge_resources(scheduler: KubeScheduler, extender: ExtenderConfig, facts: ClusterFacts) -> Iterator[Problem]:
    managed = {resource.name: resource.ignored_by_scheduler for resource in extender.managed_resources}
    remedy = "name every resource of the device configuration in managedResources, with ignoredByScheduler: true"
    for profile in facts.catalog:
        severity = Severity.ERROR if profile.word == facts.nvidia.word else Severity.WARNING
        names = _list_managed(profile)
        missing = [name for name in names if name not in managed]
        if missing:
            text = f"it does not ask gpuloom about {', '.join(missing)} ({profile.word}), so such pods fit nowhere"
            yield _complain(scheduler, text, remedy, severity)
        counted = [name for name in names if managed.get(name) is False]
        if counted:
            text = f"it looks itself for {', '.join(counted)} ({profile.word}) on nodes, where most of them are not"
            yield _complain(scheduler, text, remedy, severity)


def _list_managed(profile: Profile) -> tuple[str, ...]:
    """Return what kube-scheduler leaves to gpuloom: where cards are counted by cores, the kubelet knows the rest."""
    return profile.resources.all if profile.cards.unit == "count" else (profile.resources.count,)


def _read_timeout_s(extender: ExtenderConfig) -> float | None:
    if not extender.http_timeout:
        return _KUBE_TIMEOUT_S
    try:
        return parse_seconds(extender.http_timeout)
    except ValueError:
        return None


def _complain(scheduler: KubeScheduler, text: str, remedy: str, severity: Severity = Severity.ERROR) -> Problem:
    return Problem(scheduler.source, text, Fault.INSTALLATION, remedy, severity)
