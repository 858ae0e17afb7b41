"""What a pod asks of its node beside cards: one value, equal for pods that kube-scheduler treats alike."""

from collections.abc import Collection, Iterator, Sized

import msgspec

from gpuloom.engine.hostfit.requests import read_requests
from gpuloom.engine.hostfit.selectors import count_compared
from gpuloom.wire.hostpods import HostPod, NodeTerm, NodeTerms, Toleration

HostPort = tuple[str, str, int]
"""Address, protocol, number."""

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - what Kubernetes calls all addresses of a node; nothing listens here
MOST_CONDITIONS = 1000
"""A pod has tens of them. Thousands take longer to compare with each of many nodes than others should wait."""
_ADMITTED = tuple(
    Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect="NoExecute")
    for key in ("not-ready", "unreachable")
)
"""What the API server adds to every pod (DefaultTolerationSeconds)."""


class HostDemand(msgspec.Struct, frozen=True):
    """What kube-scheduler's filters read of a pod.

    amounts   what it requests, by resource: CPU in thousandths, the rest in whole units
    selector  labels that the node must have
    terms     of which one must hold; None where the pod does not care
    unjudged  what the pod has beside it that is not judged here, in kube-scheduler's words
    """

    amounts: tuple[tuple[str, int], ...] = ()
    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    unjudged: tuple[str, ...] = ()


def read_host_demand(pod: HostPod, ignored: Collection[str] = ()) -> HostDemand:
    """Read a pod; resources that kube-scheduler leaves to its extender are ``ignored``.

    One with more than MOST_CONDITIONS is not judged at all.
    """
    if count_conditions(pod) > MOST_CONDITIONS:
        return HostDemand(unjudged=(f"more than {MOST_CONDITIONS} conditions, values and requests",))
    spec, required = pod.spec, _read_required(pod)
    return HostDemand(
        amounts=tuple(sorted(read_requests(pod, ignored).items())),
        selector=tuple(sorted((spec.node_selector or {}).items())),
        terms=None if required is None else required.node_selector_terms or (),
        tolerations=(*(spec.tolerations or ()), *_ADMITTED),
        ports=read_host_ports(pod),
        unjudged=tuple(_name_unjudged(pod)),
    )


def _read_required(pod: HostPod) -> NodeTerms | None:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def count_conditions(pod: HostPod) -> int:
    """Count what would be compared with each node."""
    required = _read_required(pod)
    terms = (required.node_selector_terms or ()) if required else ()
    lists: list[Sized | None] = [pod.spec.node_selector, pod.spec.tolerations, terms]
    lists += [some for one in pod.all_containers for some in (one.ports, one.requests, one.limits)]
    expressions = (some for term in terms for some in (term.match_expressions, term.match_fields) if some)
    return sum(len(one) for one in lists if one) + sum(map(count_compared, expressions))


def read_host_ports(pod: HostPod) -> tuple[HostPort, ...]:
    """Return the node's ports that the pod takes while it runs: regular containers and sidecars."""
    containers = (*pod.containers, *(one for one in pod.init_containers if one.is_sidecar))
    return tuple(
        (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", number)
        for container in containers
        for port in container.ports or ()
        if (number := port.host_port or (port.container_port if pod.spec.host_network else 0)) > 0
    )


def _name_unjudged(pod: HostPod) -> Iterator[str]:
    spec, affinity = pod.spec, pod.spec.affinity
    if any(volume.persistent_volume_claim or volume.ephemeral for volume in spec.volumes or ()):
        yield "volumes"
    if affinity and affinity.pod_affinity and affinity.pod_affinity.required_during_scheduling_ignored_during_execution:
        yield "pod affinity"
    anti = affinity.pod_anti_affinity if affinity else None
    if anti and anti.required_during_scheduling_ignored_during_execution:
        yield "pod anti-affinity"
    if any(one.when_unsatisfiable != "ScheduleAnyway" for one in spec.topology_spread_constraints or ()):
        yield "topology spread constraints"
    if spec.resource_claims:
        yield "resource claims"
