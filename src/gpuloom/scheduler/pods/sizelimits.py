"""Cuts out of pods that are kept what nobody reads, where there is very much of it (trust T-02).

Whoever may create pods chooses how much stands in them, and may add labels, annotations and tolerations later, when no
webhook is asked. What is 3 MB as JSON is ten times as much here, and of a pod that waits many copies are kept.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from gpuloom.engine.hostfit.demand import MOST_CONDITIONS, count_conditions
from gpuloom.engine.hostfit.requests import CPU
from gpuloom.engine.request.demand import LONGEST_WISH, POLICIES
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.admission import MOST_MARKS
from gpuloom.wire.hostpods import Affinity, HostContainer, HostPod, HostSpec, PodAffinity, Toleration, UnreadPart
from gpuloom.wire.keys import COMPONENT_LABEL, OWNED_POD_LABELS, POD_GROUP_LABEL
from gpuloom.wire.objects import MIRROR, Container, ObjectMeta, Pod, Quantity, Resources

_P = TypeVar("_P", bound=Pod)

_LABELS = OWNED_POD_LABELS | {POD_GROUP_LABEL, COMPONENT_LABEL}
LONGEST_TEXTS = 4096
"""So many characters the annotations of a pod have together that are all kept, whoever reads them."""
_TOO_MANY = (Toleration(),) * (MOST_CONDITIONS + 1)
"""Stands for more conditions than are judged."""


class PodSizeLimits:
    """Cuts pods of unusual size to what is read of them under the settings of a process."""

    def __init__(self, settings: SchedulerSettings) -> None:
        self._authors = settings.catalog.pod_keys | POLICIES | {MIRROR}
        self._owned = settings.owned_annotations
        self._resources = {CPU}.union(*(profile.resources.all for profile in settings.catalog))

    def cut(self, pod: _P) -> _P:
        """Return a pod that may be kept; one of usual size stays as it is.

        The many labels of a larger one are gone: which budgets protect it, the API server alone knows then.
        """
        annotations = pod.annotations
        if len(annotations) + len(pod.labels) > MOST_MARKS:
            pod = replace(pod, metadata=self._cut_labels(self._cut_annotations(pod.metadata)))
        elif annotations and sum(map(len, annotations.values())) > LONGEST_TEXTS:
            pod = replace(pod, metadata=self._cut_annotations(pod.metadata))
        if isinstance(pod, HostPod) and (
            count_conditions(pod) > MOST_CONDITIONS or _count_unread(pod) > MOST_CONDITIONS
        ):
            pod = replace(pod, spec=_cut_spec(pod))
        if count_amounts(pod) > MOST_CONDITIONS:
            parts = [self._cut_amounts(pod.spec.containers), self._cut_amounts(pod.spec.init_containers)]
            pod = replace(pod, spec=replace(pod.spec, containers=parts[0], init_containers=parts[1]))
        return pod

    def _cut_annotations(self, metadata: ObjectMeta) -> ObjectMeta:
        """Keep what is read; a wish that is too long to be read stays so."""
        annotations = {
            key: text[: LONGEST_WISH + 1] if key in self._authors else text
            for key, text in (metadata.annotations or {}).items()
            if key in self._authors or key in self._owned
        }
        return replace(metadata, annotations=annotations)

    def _cut_labels(self, metadata: ObjectMeta) -> ObjectMeta:
        labels = metadata.labels or {}
        return replace(metadata, labels={key: labels[key] for key in _LABELS if key in labels})

    def _cut_amounts(self, containers: Sequence[Container] | None) -> list[Container] | None:
        """Keep the amounts that decisions about cards read; kube-scheduler's filters are not judged of so many."""
        if containers is None:
            return None
        return [
            replace(one, resources=Resources(self._keep(one.limits), self._keep(one.requests))) for one in containers
        ]

    def _keep(self, amounts: Mapping[str, Quantity]) -> dict[str, Quantity]:
        return {name: amount for name, amount in amounts.items() if name in self._resources}


def count_amounts(pod: Pod) -> int:
    """Count the amounts of resources that the containers of a pod name."""
    return sum(len(one.limits) + len(one.requests) for one in pod.all_containers)


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
