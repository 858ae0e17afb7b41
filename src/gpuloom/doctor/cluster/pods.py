"""Judges the installation's own pods, and the pods that ask for cards. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import PurePath

from gpuloom.doctor.checks import Unseen, UnseenError, require
from gpuloom.doctor.cluster.facts import ClusterFacts, Trust, believe, find_namespaces
from gpuloom.doctor.cluster.objects import DaemonSet, InstalledPod
from gpuloom.doctor.findings import Fault, Problem, Severity
from gpuloom.engine.state.foreign_pods import find_vendors_held
from gpuloom.engine.state.holdings import read_holdings
from gpuloom.vendors.catalog import Catalog
from gpuloom.wire.objects import Pod

_MOST_NAMED = 3
_RUNNING, _FAILED = "Running", "Failed"
_FOREIGN_PLUGINS = ("nvidia-device-plugin", "k8s-device-plugin", "nvidia-gpu-device-plugin")
_AMD = "rocm"
_SOCKETS = "device-plugins"
OUR_SCHEDULER, OUR_PLUGIN = "hami-scheduler", "hami-device-plugin"
COMPONENT = "app.kubernetes.io/component"
NODE_LABELS: Mapping[str, str] = {"gpu": "on"}
"""Labels of the nodes that a device plugin is for, unless it is installed for others."""


def judge_scheduler(facts: ClusterFacts) -> Iterator[Problem]:
    """Say why nobody schedules cards."""
    pods = require(facts.scheduler_pods)
    if not pods:
        unlabelled = f"no pod{_tell_namespace(facts)} has the label {COMPONENT}={OUR_SCHEDULER}"
        if url := next(_find_outside(facts), ""):
            raise UnseenError(f"{unlabelled}: the scheduler runs outside of the cluster, and answers at {url}")
        yield Problem(
            "scheduler",
            f"{unlabelled}, so nobody schedules cards",
            Fault.INSTALLATION,
            "install the chart; look at the ReplicaSet's events if its pods cannot be created",
        )
    is_ready = any(pod.is_ready for pod in pods)
    for pod in _leave_out_replaced(pods, lambda one: one.namespace):
        yield from _judge_pod(pod, Severity.WARNING if is_ready else Severity.ERROR)


def _tell_namespace(facts: ClusterFacts) -> str:
    """Say where an installation is believed to be, nothing where that is anywhere."""
    namespaces = " or ".join(sorted(find_namespaces(facts.webhooks)))
    return f" of namespace {namespaces}, where the webhook's Service is," if namespaces else ""


def _find_outside(facts: ClusterFacts) -> Iterator[str]:
    """Give where webhooks answer that are no Service of the cluster."""
    for one in () if isinstance(facts.webhooks, Unseen) else facts.webhooks:
        if one.webhook.client_config.url and one.meeting.trust is Trust.TRUSTED:
            yield one.webhook.client_config.url


def judge_device_plugin(facts: ClusterFacts) -> Iterator[Problem]:
    """Say on which nodes no device plugin works, or why on none."""
    ours, pods = list_our_sets(facts), require(facts.plugin_pods)
    if not ours and not pods:
        yield _complain_of_no_plugin(facts)
    for each in ours:
        yield from _judge_set(each)
    for pod in _leave_out_replaced(pods, lambda one: one.spec.node_name):
        yield from _judge_pod(pod, Severity.ERROR)


def list_our_sets(facts: ClusterFacts) -> list[DaemonSet]:
    """Return the DaemonSets of gpuloom's or HAMi's device plugin.

    Raises UnseenError.
    """
    return believe(
        [each for each in require(facts.daemon_sets) if each.labels.get(COMPONENT) == OUR_PLUGIN], facts.webhooks
    )


def _complain_of_no_plugin(facts: ClusterFacts) -> Problem:
    """Say that no node offers cards.

    Raises UnseenError where all cards are other vendors', whose device plugins are none of the installation's.
    """
    missing = f"no DaemonSet{_tell_namespace(facts)} is one of a device plugin"
    nodes = () if isinstance(facts.nodes, Unseen) else facts.nodes
    others = {profile.word for node in nodes for profile in facts.catalog.named_by(node)} - {facts.nvidia.word}
    if others and not any(facts.count_offered(node) for node in nodes):
        words = " and ".join(sorted(others))
        raise UnseenError(f"{missing}; cards of {words} have plugins of their own, and no node offers NVIDIA's")
    remedy = "install the chart with devicePlugin.enabled=true"
    return Problem("device plugin", f"{missing}, so no node offers cards", Fault.INSTALLATION, remedy)


def _judge_set(each: DaemonSet) -> Iterator[Problem]:
    wanted, there = each.status.desired_number_scheduled, each.status.current_number_scheduled
    name = f"DaemonSet {each.full_name}"
    if not wanted:
        labels = tell_labels(each.node_selector or NODE_LABELS)
        remedy = (
            f"label the nodes with cards as its node selector says (kubectl label node NODE {labels}), and let it "
            "tolerate their taints"
        )
        yield Problem(name, "is wanted on no node", Fault.INSTALLATION, remedy)
    elif there < wanted:
        remedy = f"kubectl describe daemonset -n {each.namespace} {each.name}: its events say why pods are not created"
        yield Problem(name, f"runs on {there} of {wanted} nodes", Fault.INSTALLATION, remedy)


def tell_labels(labels: Mapping[str, str]) -> str:
    """Write labels as kubectl takes them."""
    return " ".join(f"{key}={value}" for key, value in labels.items())


def judge_other_plugins(facts: ClusterFacts) -> Iterator[Problem]:
    """Say which DaemonSets offer the same cards."""
    sets = [each for each in require(facts.daemon_sets) if each.status.desired_number_scheduled]
    ours = [each for each in list_our_sets(facts) if each in sets]
    others = [each for each in sets if each not in ours and _is_foreign(each)]
    pairs = (pair for pair in product(ours, (*ours, *others)) if pair[0] is not pair[1] and _may_share_nodes(*pair))
    meeting = [*chain.from_iterable(pairs)] if ours else others
    names = dict.fromkeys(each.full_name for each in meeting)
    if names:
        yield Problem(
            facts.nvidia.resources.count,
            f"{len(names)} DaemonSets offer it: {', '.join(names)}; where two run on a node the last one wins",
            Fault.INSTALLATION,
            "keep one: remove NVIDIA's own (in the GPU Operator: devicePlugin.enabled=false) or HAMi's, or keep them "
            "apart by node selectors; then restart gpuloom's",
            Severity.ERROR if ours else Severity.WARNING,
        )


def judge_runtime_class(facts: ClusterFacts) -> Iterator[Problem]:
    """Say which runtime class is named and does not exist."""
    known = require(facts.runtime_classes)
    named = {profile.container.runtime_class: "the device configuration" for profile in facts.catalog}
    for each in list_our_sets(facts):
        named[each.template.runtime_class_name or ""] = f"DaemonSet {each.full_name}"
    for pod in require(facts.plugin_pods):
        named[pod.spec.runtime_class_name or ""] = f"pod {pod.full_name}"
    for name, user in named.items():
        if name and name not in known:
            yield Problem(
                f"RuntimeClass {name}",
                f"does not exist, and {user} names it",
                Fault.INSTALLATION,
                f"create it with handler {name} (the chart does with devicePlugin.createRuntimeClass=true)",
            )


def judge_pods(facts: ClusterFacts) -> Iterator[Problem]:
    """Say which pods ask for cards and never come to gpuloom."""
    remedy = _tell_way(facts)
    lost: dict[str, list[Pod]] = {}
    for pod in require(facts.pods):
        scheduler = pod.spec.scheduler_name
        holds = find_vendors_held(pod, facts.catalog)
        if scheduler != facts.scheduler_name and not pod.is_over and not holds and _asks(pod, facts.catalog):
            lost.setdefault(scheduler, []).append(pod)
    for scheduler, pods in lost.items():
        names = ", ".join(pod.full_name for pod in pods[:_MOST_NAMED])
        more = f" and {len(pods) - _MOST_NAMED} more" if len(pods) > _MOST_NAMED else ""
        waits = any(pod.status.phase != _RUNNING for pod in pods)
        yield Problem(
            f"scheduler {scheduler}",
            f"is asked by {len(pods)} pods with cards instead of {facts.scheduler_name}: {names}{more}",
            Fault.POD,
            f"{remedy}; then create them anew",
            Severity.ERROR if waits else Severity.WARNING,
        )


def _tell_way(facts: ClusterFacts) -> str:
    """Say how pods with cards come to gpuloom."""
    flags = facts.flags
    if flags is not None and not (flags.overwrites_default and (facts.webhooks or flags.expects_webhook)):
        return f"write schedulerName: {facts.scheduler_name} into their manifests, which no webhook does here"
    return (
        "see check webhook-answers; take the label hami.io/webhook=ignore off them or their namespace, and "
        "schedulerName out of their manifests"
    )


def judge_foreign_pods(facts: ClusterFacts) -> Iterator[Problem]:
    """Say on which nodes with cards pods hold devices that the scheduler did not give them."""
    offered = {node.name: {profile.word for profile in facts.catalog.named_by(node)} for node in require(facts.nodes)}
    for pod in require(facts.pods):
        held = [word for word in find_vendors_held(pod, facts.catalog) if word in offered.get(pod.spec.node_name, ())]
        if held:
            yield Problem(
                f"pod {pod.full_name}",
                f"came to node {pod.spec.node_name} past the scheduler and holds devices of {' and '.join(held)}: "
                "all such cards of the node are closed to new pods until it is gone",
                Fault.POD,
                "delete it, and create it again without spec.nodeName, another scheduler or the label "
                "hami.io/webhook=ignore; if a device plugin of another maker served it, see check other-plugins",
            )


def judge_unread(facts: ClusterFacts) -> Iterator[Problem]:
    """Say which pods hold cards in a way that cannot be read: the scheduler closes what they may hold."""
    for pod in require(facts.pods):
        node = pod.node_of_cards
        if not node or pod.is_over:
            continue
        for word, unread in read_holdings(pod, facts.catalog).unread.items():
            cards = ", ".join(sorted(unread.cards)) or f"all cards of {word}"
            yield Problem(
                f"pod {pod.full_name}",
                f"may hold {cards} of node {node}, which take no new pods: {unread.cause}",
                Fault.POD,
                f"kubectl delete pod -n {pod.namespace} {pod.name}, so that its owner creates it anew; then look who "
                "wrote that annotation",
                Severity.ERROR,
            )


def _leave_out_replaced(pods: Sequence[InstalledPod], key_of: Callable[[InstalledPod], str]) -> Iterator[InstalledPod]:
    """Leave out failed pods, such as evicted ones, while another one of the same key is ready."""
    served = {key_of(pod) for pod in pods if pod.is_ready}
    return (pod for pod in pods if pod.status.phase != _FAILED or key_of(pod) not in served)


def _judge_pod(pod: InstalledPod, severity: Severity) -> Iterator[Problem]:
    if pod.is_ready or pod.goes:
        return
    node = f" on node {pod.spec.node_name}" if pod.spec.node_name else ""
    remedy = f"kubectl describe pod -n {pod.namespace} {pod.name}, and kubectl logs of it"
    text = f"is not ready{node}: {_tell_state(pod)}"
    yield Problem(f"pod {pod.full_name}", text, Fault.INSTALLATION, remedy, severity)


def _tell_state(pod: InstalledPod) -> str:
    statuses = [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]
    for one in statuses:
        if one.state.waiting is not None and one.state.waiting.reason not in {"", "PodInitializing"}:
            waiting = one.state.waiting
            said = f" ({waiting.message})" if waiting.message else ""
            return f"container {one.name} waits: {waiting.reason}{said}"
    unready = [f"{one.name}, restarted {one.restart_count} times" for one in statuses if not one.ready]
    if statuses and not unready:
        return f"phase {pod.status.phase}; its containers are ready, but it is not, as on a node that is lost"
    return f"phase {pod.status.phase or 'unknown'}" + (f"; not ready: {'; '.join(unready)}" if unready else "")


def _asks(pod: Pod, catalog: Catalog) -> bool:
    """Tell whether the webhook would take a pod for one with cards; it leaves privileged containers alone."""
    return bool(catalog.concerned(container for container in pod.all_containers if not container.privileged))


def _may_share_nodes(one: DaemonSet, other: DaemonSet) -> bool:
    """Tell whether their node selectors do not contradict each other."""
    theirs = other.node_selector
    return all(theirs.get(key, value) == value for key, value in one.node_selector.items())


def _is_foreign(each: DaemonSet) -> bool:
    """Tell whether it is another device plugin for NVIDIA's cards; their images hold other programs, too."""
    folders = (volume.host_path.path for volume in each.template.volumes or () if volume.host_path)
    if not any(PurePath(folder).name == _SOCKETS for folder in folders):
        return False
    containers = [one for one in each.template.containers or () if _AMD not in one.image.split("/")[:-1]]
    texts = (text for container in containers for text in (container.image, *container.words))
    return any(name in text for text in texts for name in _FOREIGN_PLUGINS)
