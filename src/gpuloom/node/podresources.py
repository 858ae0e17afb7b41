"""Compare what was granted with what the kubelet did: the kubelet never says for which pod it asks (binding 3).

Only reports, and changes nothing. A finding means that a container runs with another pod's share.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError, NotFoundError
from gpuloom.kube.podevents import record
from gpuloom.kube.recorder import EventRecorder
from gpuloom.kube.resources import PODS
from gpuloom.node.clock import Sleep
from gpuloom.node.errors import KubeletError
from gpuloom.node.kubeletbook import read_book
from gpuloom.node.naming import phrase
from gpuloom.node.settings import NodeSettings
from gpuloom.wire.objects import Pod

_DELAYS_S = (1.0, 2.0, 4.0, 8.0)
_MOST_CHECKS = 100
_log = structlog.get_logger(__name__)


class HolderName(NamedTuple):
    """What stands for a pod in the kubelet's book."""

    namespace: str
    name: str


async def read_holders(settings: NodeSettings) -> Mapping[str, Collection[HolderName]]:
    """Return which pods hold which device ids of the resource, as the kubelet says.

    An init container may have the same id as another container. Raises KubeletError when it does not answer.
    """
    holders: dict[str, set[HolderName]] = {}
    for pod in await read_book(settings.pod_resources_socket, settings.resource_name):
        for ids in pod.devices.values():
            for each in ids:
                holders.setdefault(each, set()).add(HolderName(pod.namespace, pod.name))
    return holders


class AllocationCheck:
    """Checks every served pod a little later; ``close`` ends the checks.

    ``findings`` counts mismatches, ``dropped`` checks that were not made because too many were waiting.
    """

    def __init__(
        self, settings: NodeSettings, client: KubeClient, events: EventRecorder, *, sleep: Sleep = asyncio.sleep
    ) -> None:
        self.findings = 0
        self.dropped = 0
        self._client = client
        self._settings = settings
        self._events = events
        self._sleep = sleep
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, pod: Pod, ids: Sequence[str]) -> None:
        """Check soon that this pod holds these device ids."""
        if len(self._tasks) >= _MOST_CHECKS:
            self.dropped += 1
            _log.warning("allocation is not checked, too many wait", pod=pod.full_name, dropped=self.dropped)
            return
        task = asyncio.create_task(self._check(pod, frozenset(ids)), name=f"check allocation of {pod.full_name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drop(self) -> None:
        """Give up all checks: a kubelet that was restarted gives ids of which it did not hear to other pods."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """End all checks."""
        tasks = tuple(self._tasks)
        self.drop()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _check(self, pod: Pod, ids: frozenset[str]) -> None:
        """Look until the kubelet knows who holds the ids; if it never does, it has given up the pod."""
        for delay_s in _DELAYS_S:
            await self._sleep(delay_s)
            try:
                holders = await read_holders(self._settings)
            except KubeletError as error:
                _log.info("allocation cannot be checked", pod=pod.full_name, error=str(error))
                return
            found = {name for each in ids for name in holders.get(each, ())}
            if found:
                await self._compare(pod, found)
                return

    async def _compare(self, pod: Pod, found: Collection[HolderName]) -> None:
        if HolderName(pod.namespace, pod.name) in found or await self._has_left(pod):
            return
        self.findings += 1
        message, told = phrase(
            lambda names: f"the kubelet gave this pod's share of a card to {names.all([*found])}: delete both pods",
            [pod],
        )
        _log.error("share given to another pod", pod=pod.full_name, error=message)
        record(self._events, pod, "Warning", "ShareGivenToAnotherPod", told)

    async def _has_left(self, pod: Pod) -> bool:
        """Tell whether a pod is gone, going or over: then the kubelet may have given its ids to the next."""
        try:
            seen = await self._client.get(PODS, pod.name, namespace=pod.namespace)
        except NotFoundError:
            return True
        except ApiError:
            return False
        return seen.metadata.uid != pod.metadata.uid or seen.is_terminating or seen.is_over
