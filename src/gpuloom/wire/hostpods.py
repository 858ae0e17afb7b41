"""Pods with all that kube-scheduler's own filters read of them, cards apart: where they may run, and what they request.

For those who watch pods to place them; the API server's defaults are added by the reader, so that a manifest as its
author wrote it means the same as the pod that becomes of it.
"""

from collections.abc import Sequence
from typing import cast

import msgspec

from gpuloom.wire.objects import GATED, Container, KubeStruct, Named, Pod, PodSpec, PodStatus, Resources


class Toleration(KubeStruct, frozen=True):
    """A taint that does not keep the pod away; what is empty stands for any."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class LabelRequirement(KubeStruct, frozen=True):
    """One condition on a label, or on a field of a node."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class NodeTerm(KubeStruct, frozen=True):
    """Conditions that must all hold; without any, none does."""

    match_expressions: tuple[LabelRequirement, ...] | None = None
    match_fields: tuple[LabelRequirement, ...] | None = None


class NodeTerms(KubeStruct, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeTerm, ...] | None = None


class NodeAffinity(KubeStruct, frozen=True):
    """Which nodes will do; what is merely preferred is not read."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = None


class UnreadPart(KubeStruct, frozen=True):
    """Something that is there; what it says is not read."""


class PodAffinity(KubeStruct, frozen=True):
    """Whether other pods must, or must not, be near; how, is not read."""

    required_during_scheduling_ignored_during_execution: list[UnreadPart] | None = None


class Affinity(KubeStruct, frozen=True):
    """``affinity`` of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class ContainerPort(KubeStruct, frozen=True):
    """A port of a container; ``host_port`` is taken on the node itself."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class HostContainer(Container, frozen=True):
    """A container with its ports."""

    ports: tuple[ContainerPort, ...] | None = None


class SpreadConstraint(KubeStruct, frozen=True):
    """That alike pods are spread; over what, is not read."""

    when_unsatisfiable: str = ""


class HostVolume(KubeStruct, frozen=True):
    """The kinds of volumes that bind a pod to nodes; what they are is not read."""

    persistent_volume_claim: UnreadPart | None = None
    ephemeral: UnreadPart | None = None


class HostSpec(PodSpec, frozen=True):
    """``spec`` of a pod."""

    containers: list[HostContainer] | None = None
    init_containers: list[HostContainer] | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    overhead: dict[str, str | int | float] | None = None
    resources: Resources | None = None
    host_network: bool = False
    volumes: list[HostVolume] | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None
    resource_claims: list[Named] | None = None


class PodCondition(KubeStruct, frozen=True):
    """One condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class HostStatus(PodStatus, frozen=True):
    """``status`` of a pod."""

    conditions: list[PodCondition] | None = None


class HostPod(Pod, frozen=True):
    """A pod with all that says on which nodes it may run."""

    spec: HostSpec = HostSpec()
    status: HostStatus = HostStatus()

    @property
    def init_containers(self) -> Sequence[HostContainer]:
        """Init containers in order, never null."""
        return self.spec.init_containers or ()

    @property
    def containers(self) -> Sequence[HostContainer]:
        """Regular containers in order, never null."""
        return self.spec.containers or ()

    @property
    def all_containers(self) -> Sequence[HostContainer]:
        """Init containers, then regular ones."""
        return cast("Sequence[HostContainer]", super().all_containers)

    @property
    def last_words(self) -> str:
        """What kube-scheduler said last about a pod that it did not place, empty when it said nothing."""
        said = self._find_not_placed()
        if said is None:
            return ""
        return f"{said.reason}: {said.message}" if said.message else said.reason

    @property
    def is_unschedulable(self) -> bool:
        """Whether kube-scheduler has tried to place the pod and said that it did not; a gate is no try."""
        said = self._find_not_placed()
        return said is not None and said.reason != GATED

    def _find_not_placed(self) -> PodCondition | None:
        said = (one for one in self.status.conditions or () if one.type == "PodScheduled" and one.status == "False")
        return next(said, None)
