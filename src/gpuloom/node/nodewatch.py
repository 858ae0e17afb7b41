"""What a node's plugin knows of its pods without asking, so that a call costs the API server no read (binding 9).

The watch may lag. So nothing is granted on its word alone: a grant is written first, and what the watch shows when it
shows that write is everything that happened before it.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from gpuloom.kube.annotations import swap_annotations
from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError, NotFoundError
from gpuloom.kube.resources import NODES, PODS
from gpuloom.node.boundpods import bound_pods
from gpuloom.node.clock import Sleep
from gpuloom.node.knownpods import Book
from gpuloom.node.nodepods import NodePods
from gpuloom.node.settings import NodeSettings
from gpuloom.node.writes import read_lock
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.objects import Pod

_BETWEEN_LOOKS_S = 1.0
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NodeWatch:
    """The pods of a node as its watch shows them, and the release of locks that nobody looked for."""

    pods: NodePods[FullPod]
    locks: "LateRelease"

    async def run(self) -> None:
        """Follow and release until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.pods.run())
            group.create_task(self.locks.run())

    def knows(self, book: Book) -> bool:
        """Whether the watch has told of every pod that the kubelet knows and that has no devices of ours.

        One that it does not show may be the pod that asks.
        """
        names = {(pod.namespace, pod.name) for pod in self.pods.all}
        return all((one.namespace, one.name) in names for one in book if not any(one.devices.values()))


class LateRelease:
    """Releases a lock that names a pod which was served without a look at its node: HAMi's scheduler set it.

    It looks after the pod is served, at most once a second where there is none. Another pod of the same name keeps its
    lock.
    """

    def __init__(self, client: KubeClient, node_name: str, *, sleep: Sleep = asyncio.sleep) -> None:
        self._client = client
        self._node_name = node_name
        self._sleep = sleep
        self._served: dict[tuple[str, str], str] = {}
        self._is_needed = asyncio.Event()
        self._told = ""

    def note(self, pod: Pod) -> None:
        """Note a pod whose lock, if there is one, is over."""
        self._served[pod.namespace, pod.name] = pod.metadata.uid
        self._is_needed.set()

    async def run(self) -> None:
        """Release until cancelled."""
        while True:
            await self._is_needed.wait()
            self._is_needed.clear()
            served, self._served = self._served, {}
            found = False
            try:
                found = await self._look(served)
                self._told = ""
            except WireError as error:
                # Whose it is cannot be told: the scheduler takes it over when it is old.
                _log.warning("lock cannot be read", node=self._node_name, error=str(error))
            except ApiError as error:
                self._tell(str(error))
                self._note_again(served.items())
            except asyncio.CancelledError:
                # The next run is for the next kubelet.
                self._note_again(served.items())
                raise
            if not found:
                await self._sleep(_BETWEEN_LOOKS_S)

    async def _look(self, served: dict[tuple[str, str], str]) -> bool:
        """Release the node's lock if it names one of these pods; return whether it did.

        The pod is read after the node: what the lock names is this pod, and not a later one of its name.
        """
        node = await self._client.get(NODES, self._node_name)
        lock = read_lock(node)
        uid = served.get((lock.namespace, lock.name)) if lock is not None else None
        if lock is None or uid is None:
            return False
        try:
            pod = await self._client.get(PODS, lock.name, namespace=lock.namespace)
        except NotFoundError:
            return False
        if pod.metadata.uid != uid:
            return False
        await swap_annotations(self._client, NODES, node, {keys.NODE_LOCK: None})
        return True

    def _tell(self, error: str) -> None:
        """Log why it could not look, once while that lasts: an API server may be away for hours."""
        if error != self._told:
            _log.warning("lock of a served pod not released", node=self._node_name, error=error)
        self._told = error

    def _note_again(self, served: Iterable[tuple[tuple[str, str], str]]) -> None:
        for name, uid in served:
            self._served.setdefault(name, uid)
        self._is_needed.set()


def watch_node(client: KubeClient, settings: NodeSettings, *, sleep: Sleep = asyncio.sleep) -> NodeWatch:
    """Return a watch of a node that has not begun."""
    pods = NodePods(client, bound_pods(settings.resource_name, own_lists=settings.own_lists), settings.node_name)
    return NodeWatch(pods, LateRelease(client, settings.node_name, sleep=sleep))
