"""Where a new pod wants to run, as far as the webhook asks before it adds a preference."""

from typing import Any

from gpuloom.wire.hostpods import NodeTerm, NodeTerms
from gpuloom.wire.objects import KubeStruct


class PreferredNodes(KubeStruct, frozen=True):
    """Nodes that are preferred, and how much."""

    weight: int = 0
    preference: NodeTerm = NodeTerm()


class WishedNodes(KubeStruct, frozen=True):
    """Which nodes will do, and which are preferred."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodes, ...] | None = None


class WishedAffinity(KubeStruct, frozen=True):
    """``affinity`` of a pod; whom it wants near is not read, only that."""

    node_affinity: WishedNodes | None = None
    pod_affinity: dict[str, Any] | None = None


class WishingSpec(KubeStruct, frozen=True):
    """``spec`` of a pod."""

    node_name: str = ""
    scheduler_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: WishedAffinity | None = None


class WishingPod(KubeStruct, frozen=True):
    """A pod with its wishes."""

    spec: WishingSpec = WishingSpec()
