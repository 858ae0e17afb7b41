"""What is given away, added up from API objects alone: nothing here asks gpuloom or uses its arithmetic."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol, Self

from gpuloom.kube import (
    NODES,
    Applied,
    Deleted,
    InitialListBegins,
    InitialListComplete,
    InitialObject,
    KubeClient,
    Reflector,
    ReflectorTiming,
    Resource,
)
from gpuloom.wire.objects import KubeStruct, Node, Pod, PodStatus

ALLOCATED = "hami.io/vgpu-devices-allocated"
REGISTER = "hami.io/node-nvidia-register"
LOCK = "hami.io/mutex.lock"
PHASE = "hami.io/bind-phase"
COMPONENT, PLUGIN = "app.kubernetes.io/component", "hami-device-plugin"
LONGEST_PAUSE_S = 0.5
WHOLE_CARD = 100
"""A container that got so many per cent of the cores is alone on its card."""


class Condition(KubeStruct, frozen=True):
    """One condition of a pod."""

    type: str = ""
    message: str = ""


class ConditionedStatus(PodStatus, frozen=True):
    """A pod's status with what gpuloom itself never reads."""

    conditions: list[Condition] | None = None


class ToldPod(Pod, frozen=True):
    """A pod that says why it waits."""

    status: ConditionedStatus = ConditionedStatus()

    @property
    def reason(self) -> str:
        """Why no node was found, as kube-scheduler has written; empty where it has not."""
        return next((one.message for one in self.status.conditions or [] if one.type == "PodScheduled"), "")


TOLD_PODS = Resource("", "v1", "pods", "Pod", ToldPod, namespaced=True)


async def sleep_briefly(seconds: float) -> None:
    """Wait, but not as long as a reflector grows patient: who judges must know soon after the API server is back."""
    await asyncio.sleep(min(seconds, LONGEST_PAUSE_S))


@dataclass(frozen=True, slots=True)
class Held:
    """So much of one card: containers, memory in MiB, per cent of the cores."""

    slots: int = 0
    memory_mib: int = 0
    cores: int = 0

    def __add__(self, other: "Held") -> "Held":
        return Held(self.slots + other.slots, self.memory_mib + other.memory_mib, self.cores + other.cores)

    def exceeds(self, room: "Held") -> bool:
        """Say whether this is more than there is, in any respect."""
        return self.slots > room.slots or self.memory_mib > room.memory_mib or self.cores > room.cores


def read_shares(pod: Pod) -> dict[str, Held]:
    """Return what a pod holds, by card."""
    held: dict[str, Held] = defaultdict(Held)
    for share in pod.annotations.get(ALLOCATED, "").replace(";", "").split(":"):
        if share:
            uuid, _, memory_mib, cores = share.split(",")
            held[uuid] += Held(1, int(memory_mib), int(cores))
    return held


def read_room(node: Node) -> Mapping[str, Held]:
    """Return what a node registered, by card."""
    return _decode_room(node.annotations.get(REGISTER, "[]"))


@lru_cache(maxsize=10_000)
def _decode_room(register: str) -> Mapping[str, Held]:
    cards = json.loads(register)
    return MappingProxyType({card["id"]: Held(card["count"], card["devmem"], card["devcore"]) for card in cards})


class Follower(Protocol):
    """Wants to hear of changes, after they were added up."""

    def see_pod(self, before: ToldPod | None, after: ToldPod | None) -> None:
        """Take a pod as it was known, and as it is now: None before it came, and after it went."""

    def see_node(self, name: str) -> None:
        """Take that a node came, changed or went."""


class Accounts:
    """Watches pods and nodes and adds up after every event, as an async context manager.

    Attributes: `pods` by UID, `nodes` by name, `violations` (cards of which too much was given away, at any moment),
    `bound_s` (when a pod was first seen bound, in seconds of the loop's clock) and `last_bound_s`, `changed` set with
    every event, and `followers`, who hear of every change.
    """

    def __init__(self, client: KubeClient):
        """Prepare to watch through `client`, which goes straight to the API server."""
        self.pods: dict[str, ToldPod] = {}
        self.nodes: dict[str, Node] = {}
        self.violations: list[str] = []
        self.bound_s: dict[str, float] = {}
        self.last_bound_s = 0.0
        self.changed = asyncio.Event()
        self.followers: list[Follower] = []
        self._on_node: dict[str, dict[str, ToldPod]] = defaultdict(dict)
        self._client = client
        self._listed: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(self._follow(TOLD_PODS, self._apply_pod, self._drop_pod)),
            asyncio.create_task(self._follow(NODES, self._apply_node, self._drop_node)),
        ]
        await self.wait_for(lambda: self._listed == {"Pod", "Node"})
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def wait_for(self, condition: Callable[[], bool], *, timeout_s: float = 60) -> None:
        """Wait until something is so, looking after every event. Raise TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    @property
    def holders(self) -> list[ToldPod]:
        """Pods that hold what their annotations say: bound and not over, also while they end."""
        return [pod for pod in self.pods.values() if pod.spec.node_name and not pod.is_over]

    @property
    def waiting(self) -> list[ToldPod]:
        """Pods that no node was found for."""
        return [pod for pod in self.pods.values() if not pod.spec.node_name and not pod.is_over]

    @property
    def locks(self) -> dict[str, str]:
        """The locks that are set, by node."""
        return {node.name: node.annotations[LOCK] for node in self.nodes.values() if node.annotations.get(LOCK)}

    @property
    def busy(self) -> dict[str, str]:
        """What keeps nodes from taking the next pod, by node: locks, and UIDs of bound pods that are not served."""
        waiting = (pod for pod in self.holders if pod.annotations.get(PHASE) == "allocating")
        return {**{pod.spec.node_name: pod.metadata.uid for pod in waiting}, **self.locks}

    def held(self, pods: Iterable[ToldPod] | None = None) -> dict[tuple[str, str], Held]:
        """Add up what pods hold, by node and card; all that hold something if none are given."""
        held: dict[tuple[str, str], Held] = defaultdict(Held)
        for pod in self.holders if pods is None else pods:
            for uuid, share in read_shares(pod).items():
                held[pod.spec.node_name, uuid] += share
        return held

    def cards(self, node: str) -> dict[str, tuple[Held, Held]]:
        """Return how much of each card of a node is held, and how much there is, by card."""
        held = self.held(self._holders_on(node))
        room = read_room(self.nodes[node]) if node in self.nodes else {}
        return {uuid: (held.get((node, uuid), Held()), there) for uuid, there in room.items()}

    def _holders_on(self, node: str) -> list[ToldPod]:
        """Return the pods that hold something of a node."""
        return [pod for pod in self._on_node[node].values() if not pod.is_over]

    def _check(self, node: str) -> None:
        here = self._holders_on(node)
        room = read_room(self.nodes[node]) if node in self.nodes else {}
        for (_, uuid), held in self.held(here).items():
            sharing = [pod for pod in here if uuid in read_shares(pod)]
            is_shared = len(sharing) > 1 and any(read_shares(pod)[uuid].cores >= WHOLE_CARD for pod in sharing)
            if is_shared or held.exceeds(room.get(uuid, Held())):
                names = sorted(pod.name for pod in sharing)
                self.violations.append(f"{uuid} of {node}: {held} of {room.get(uuid)} by {names}")

    def _apply_pod(self, pod: ToldPod) -> None:
        uid = pod.metadata.uid
        known = self.pods.get(uid)
        self.pods[uid] = pod
        if node := pod.spec.node_name:
            self._on_node[node][uid] = pod
            if uid not in self.bound_s:
                self.bound_s[uid] = self.last_bound_s = asyncio.get_running_loop().time()
            if known is None or not known.spec.node_name or known.annotations != pod.annotations:
                self._check(node)
        for follower in self.followers:
            follower.see_pod(known, pod)

    def _drop_pod(self, pod: Pod) -> None:
        known = self.pods.pop(pod.metadata.uid, None)
        if known is None:
            return
        self._on_node[known.spec.node_name].pop(pod.metadata.uid, None)
        for follower in self.followers:
            follower.see_pod(known, None)

    def _apply_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self._tell_of_node(node.name)

    def _drop_node(self, node: Node) -> None:
        self.nodes.pop(node.name, None)
        self._tell_of_node(node.name)

    def _tell_of_node(self, name: str) -> None:
        for follower in self.followers:
            follower.see_node(name)

    def _concerns(self, found: Any) -> bool:
        """The pods of device plugins are no tenants'."""
        return bool(found.labels.get(COMPONENT) != PLUGIN)

    async def _follow(self, resource: Resource[Any], apply: Callable[[Any], None], drop: Callable[[Any], None]) -> None:
        listed: list[Any] = []
        reflector = Reflector(self._client, resource, timing=ReflectorTiming(sleep=sleep_briefly))
        async with aclosing(reflector.events()) as events:
            async for event in events:
                match event:
                    case InitialListBegins():
                        listed = []
                    case InitialObject(object=found) | Applied(object=found) if not self._concerns(found):
                        continue
                    case InitialObject(object=found):
                        listed.append(found)
                    case InitialListComplete():
                        self._replace(resource, listed, apply, drop)
                    case Applied(object=found):
                        apply(found)
                    case Deleted(object=found):
                        drop(found)
                self.changed.set()

    def _replace(
        self, resource: Resource[Any], listed: list[Any], apply: Callable[[Any], None], drop: Callable[[Any], None]
    ) -> None:
        known: Mapping[str, Any] = self.pods if resource is TOLD_PODS else self.nodes
        uids = {found.metadata.uid for found in listed}
        for gone in [found for found in known.values() if found.metadata.uid not in uids]:
            drop(gone)
        if resource is TOLD_PODS:
            # All of the list is so at one moment: a pod that has ended holds nothing beside one that came for it.
            for found in listed:
                if node := found.spec.node_name:
                    self._on_node[node][found.metadata.uid] = found
        for found in listed:
            apply(found)
        self._listed.add(resource.kind)
