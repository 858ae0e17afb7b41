"""Pods with shares of the cards, and what their containers were given."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuloom.kube.errors import ApiError
from gpuloom.kube.resources import FULL_PODS, PODS
from gpuloom.local.cluster import LocalCluster
from gpuloom.local.selftest.comparing import HOOK_DIR, check_given
from gpuloom.local.selftest.grants import ContainerGrant, find_card, list_cdi_devices, list_mounts, place_here
from gpuloom.local.selftest.report import StepFailedError
from gpuloom.local.waiting import Key, wait_until
from gpuloom.wire.fullpods import FullPod

CORES_PERCENT = 25
_NAMESPACE, _CONTAINER = "default", "main"
_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class TrialPod:
    """A pod of one container that asks for a share; on the card `uuid` if it names one."""

    name: str
    share_mib: int
    uuid: str = ""
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def manifest(self) -> dict[str, Any]:
        """The pod as it is submitted."""
        limits = {
            "nvidia.com/gpu": "1",
            "nvidia.com/gpumem": str(self.share_mib),
            "nvidia.com/gpucores": str(CORES_PERCENT),
            **self.more,
        }
        annotations = {"nvidia.com/use-gpuuuid": self.uuid} if self.uuid else {}
        return {
            "metadata": {"name": self.name, "namespace": _NAMESPACE, "annotations": annotations},
            "spec": {"containers": [{"name": _CONTAINER, "image": "none", "resources": {"limits": limits}}]},
        }


class TrialPods:
    """The pods on the one node of a cluster, whose files are below `host`; `library` is what their programs load."""

    def __init__(self, cluster: LocalCluster, node: str, host: Path, library: Path | None) -> None:
        self._cluster = cluster
        self._node = node
        self._host = host
        self._library = library

    @property
    def containers_dir(self) -> Path:
        """Where the monitor finds the regions of containers."""
        return place_here(HOOK_DIR, self._host) / "containers"

    async def submit(self, wanted: Sequence[TrialPod], uuids: Collection[str]) -> list[ContainerGrant]:
        """Let pods run, and return what their containers were given of the cards `uuids`.

        Raises StepFailedError where it is not what they asked for.
        """
        names = {one.name for one in wanted}
        try:
            for one in wanted:
                await self._cluster.submit(one.manifest)
            await self._wait(lambda pods: {pod.name for pod in pods.values() if _runs(pod)} >= names)
        except ApiError as error:
            raise StepFailedError(f"the pods cannot be created: {error}") from error
        except TimeoutError as error:
            raise StepFailedError(f"the pods did not start within {_WAIT_S:g} s") from error
        return [self._find_grant(one, uuids) for one in wanted]

    async def clear(self) -> None:
        """End all pods.

        Raises StepFailedError.
        """
        try:
            for pod in (await self.list_pods()).values():
                await self._cluster.client.delete(PODS, pod.name, namespace=pod.namespace)
            await self._wait(lambda pods: not pods)
        except (ApiError, TimeoutError) as error:
            raise StepFailedError(f"the pods do not end: {error}") from error

    async def list_pods(self) -> dict[str, FullPod]:
        """Return the pods by UID."""
        return {pod.metadata.uid: pod for pod in (await self._wait(lambda _: True)).values()}

    async def _wait(self, holds: Callable[[Mapping[Key, FullPod]], bool]) -> Mapping[Key, FullPod]:
        return await wait_until(self._cluster.client, FULL_PODS, holds, timeout_s=_WAIT_S)

    def _find_grant(self, one: TrialPod, uuids: Collection[str]) -> ContainerGrant:
        kubelet, key = self._cluster.kubelets[self._node], (_NAMESPACE, one.name, _CONTAINER)
        environment, places, answers = kubelet.environments[key], kubelet.mounts[key], kubelet.answers[key]
        card, wanted = find_card(answers), {one.uuid} if one.uuid else uuids
        check_given(one.name, card, environment, places, uuids=wanted, share_mib=one.share_mib)
        inside = Path(environment["CUDA_DEVICE_MEMORY_SHARED_CACHE"])
        return ContainerGrant(
            one.name,
            card,
            environment,
            list_mounts(answers, self._host),
            list_cdi_devices(answers),
            region=place_here(places[HOOK_DIR], self._host) / inside.relative_to(HOOK_DIR),
            library=self._library,
        )


def _runs(pod: FullPod) -> bool:
    return pod.status.phase == "Running"
