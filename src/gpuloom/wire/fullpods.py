"""Pods with everything that gpuloom reads of a pod: environment variables, owners and the state of containers.

For programs that read one pod, or the pods of one node; the scheduler knows all pods, and reads less of each.
"""

from collections.abc import Sequence
from typing import cast

from gpuloom.wire.objects import Container, ContainerStatus, KubeStruct, ObjectMeta, Pod, PodSpec, PodStatus


class OwnerReference(KubeStruct, frozen=True):
    """The owner of an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class FullMeta(ObjectMeta, frozen=True):
    """``metadata`` of a pod."""

    owner_references: list[OwnerReference] | None = None


class EnvVar(KubeStruct, frozen=True):
    """One environment variable; ``valueFrom`` is not read."""

    name: str = ""
    value: str = ""


class FullContainer(Container, frozen=True):
    """A container with its environment variables."""

    env: list[EnvVar] | None = None

    @property
    def variables(self) -> frozenset[str] | None:
        """Names of its environment variables, None without a list of them."""
        return None if self.env is None else frozenset(one.name for one in self.env)


class FullSpec(PodSpec, frozen=True):
    """``spec`` of a pod."""

    containers: list[FullContainer] | None = None
    init_containers: list[FullContainer] | None = None


class FullStatus(PodStatus, frozen=True):
    """``status`` of a pod."""

    container_statuses: list[ContainerStatus] | None = None


class FullPod(Pod, frozen=True):
    """A pod with everything that gpuloom reads of a pod."""

    metadata: FullMeta = FullMeta()
    spec: FullSpec = FullSpec()
    status: FullStatus = FullStatus()

    @property
    def init_containers(self) -> list[FullContainer]:
        """Init containers in order, never null."""
        return self.spec.init_containers or []

    @property
    def containers(self) -> list[FullContainer]:
        """Regular containers in order, never null."""
        return self.spec.containers or []

    @property
    def all_containers(self) -> Sequence[FullContainer]:
        """Init containers, then regular ones."""
        return cast("Sequence[FullContainer]", super().all_containers)

    @property
    def ended_containers(self) -> frozenset[str]:
        """Names of the containers of which nothing runs, as their kubelet says; one may start again."""
        statuses = (*(self.status.init_container_statuses or ()), *(self.status.container_statuses or ()))
        return frozenset(one.name for one in statuses if one.state is not None and one.state.terminated is not None)
