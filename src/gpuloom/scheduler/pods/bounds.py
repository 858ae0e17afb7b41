"""Cuts out of pods that are kept what nobody reads, where there is very much of it (trust T-02).

Whoever may create pods chooses how much stands in them, and may add labels, annotations and tolerations later, when no
webhook is asked. What is 3 MB as JSON is ten times as much here, and of a pod that waits many copies are kept.
"""

from typing import TypeVar

from msgspec.structs import replace

from gpuloom.engine.hostfit.demand import MOST_CONDITIONS, count_conditions
from gpuloom.engine.request.demand import POLICIES
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.admission import MOST_MARKS
from gpuloom.wire.hostpods import Affinity, HostContainer, HostPod, HostSpec, PodAffinity, Toleration, UnreadPart
from gpuloom.wire.keys import COMPONENT_LABEL, OWNED_POD_LABELS, POD_GROUP_LABEL
from gpuloom.wire.objects import MIRROR, ObjectMeta, Pod

_P = TypeVar("_P", bound=Pod)

_LABELS = OWNED_POD_LABELS | {POD_GROUP_LABEL, COMPONENT_LABEL}
_TOO_MANY = (Toleration(),) * (MOST_CONDITIONS + 1)
"""Stands for more conditions than are judged."""


class PodBounds:
    """Cuts pods to what is read of them under the settings of a process."""

    def __init__(self, settings: SchedulerSettings) -> None:
        self._annotations = settings.catalog.pod_keys | POLICIES | {MIRROR}
        self._owned = settings.owned_annotations

    def cut(self, pod: _P) -> _P:
        """Return a pod that may be kept; one of usual size stays as it is.

        The many labels of a larger one are gone: which budgets protect it, the API server alone knows then.
        """
        if len(pod.annotations) + len(pod.labels) > MOST_MARKS:
            pod = replace(pod, metadata=self._cut_metadata(pod.metadata))
        if isinstance(pod, HostPod) and (
            count_conditions(pod) > MOST_CONDITIONS or _count_unread(pod) > MOST_CONDITIONS
        ):
            pod = replace(pod, spec=_cut_spec(pod))
        return pod

    def _cut_metadata(self, metadata: ObjectMeta) -> ObjectMeta:
        annotations, labels = metadata.annotations or {}, metadata.labels or {}
        return replace(
            metadata,
            annotations={key: text for key, text in annotations.items() if self._is_read(key)},
            labels={key: labels[key] for key in _LABELS if key in labels},
        )

    def _is_read(self, annotation: str) -> bool:
        return annotation in self._annotations or annotation in self._owned


def _count_unread(pod: HostPod) -> int:
    """Count what is only asked whether there is any."""
    spec, near = pod.spec, pod.spec.affinity or Affinity()
    lists = (
        _terms_of(near.pod_affinity),
        _terms_of(near.pod_anti_affinity),
        spec.topology_spread_constraints,
        spec.volumes,
        spec.resource_claims,
        spec.scheduling_gates,
    )
    return sum(len(one) for one in lists if one)


def _cut_spec(pod: HostPod) -> HostSpec:
    """Cut what kube-scheduler's own filters read, so that the same is judged of it."""
    spec, near = pod.spec, pod.spec.affinity or Affinity()
    volumes = [one for one in spec.volumes or () if one.persistent_volume_claim or one.ephemeral]
    spread = [one for one in spec.topology_spread_constraints or () if one.when_unsatisfiable != "ScheduleAnyway"]
    spec = replace(
        spec,
        affinity=Affinity(near.node_affinity, _cut_terms(near.pod_affinity), _cut_terms(near.pod_anti_affinity)),
        topology_spread_constraints=spread[:1],
        volumes=volumes[:1],
        resource_claims=(spec.resource_claims or [])[:1],
        scheduling_gates=(spec.scheduling_gates or [])[:MOST_CONDITIONS],
    )
    return spec if count_conditions(pod) <= MOST_CONDITIONS else _cut_conditions(spec)


def _cut_conditions(spec: HostSpec) -> HostSpec:
    affinity = None if spec.affinity is None else replace(spec.affinity, node_affinity=None)
    return replace(
        spec,
        affinity=affinity,
        node_selector=None,
        tolerations=_TOO_MANY,
        containers=_without_ports(spec.containers),
        init_containers=_without_ports(spec.init_containers),
    )


def _terms_of(affinity: PodAffinity | None) -> list[UnreadPart] | None:
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def _cut_terms(affinity: PodAffinity | None) -> PodAffinity | None:
    return PodAffinity((_terms_of(affinity) or [])[:1])


def _without_ports(containers: list[HostContainer] | None) -> list[HostContainer] | None:
    return None if containers is None else [replace(one, ports=None) for one in containers]
