"""What bound pods take of their nodes beside cards: sums per node, kept up to date pod by pod."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from gpuloom.engine.hostfit.demand import ANY_ADDRESS, HostPort, read_host_ports
from gpuloom.engine.hostfit.requests import COUNTED, read_requests
from gpuloom.wire.hostpods import HostPod

_Key = TypeVar("_Key")

_MOST_FOOTPRINTS = 5_000
"""So many different ones are remembered; then all are forgotten, and read again where they come up."""
_MOST_ENTRIES = 32
"""Pods that name more containers, resources and ports are rare; what is remembered stays within 60 MB beside them."""

MOST_NAMES = 1000
"""Different resources that a pod may request, and ports that it may take, for all of them to be counted. A kubelet runs
a pod that asks for a hundred thousand resources of which it has none (trust T-02)."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one pod takes of its node, and how important it is; one that is cut has more names than are counted."""

    amounts: tuple[tuple[str, int], ...] = ()
    ports: tuple[HostPort, ...] = ()
    priority: int = 0
    is_cut: bool = False


@dataclass(slots=True)
class NodeUsage:
    """What all pods of a node take: how many they are, and sums by resource.

    ports    with how many pods name each
    numbers  the same by protocol and number, whatever the address
    """

    pods: dict[str, Footprint] = field(default_factory=dict)
    amounts: dict[str, int] = field(default_factory=dict)
    ports: dict[HostPort, int] = field(default_factory=dict)
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)

    def copy(self) -> "NodeUsage":
        """Return the same, to be changed freely."""
        return NodeUsage(dict(self.pods), dict(self.amounts), dict(self.ports), dict(self.numbers))

    def has_taken(self, port: HostPort) -> bool:
        """Tell whether a pod that asks for a port would find it taken: one of all addresses is taken by any."""
        address, protocol, number = port
        if address == ANY_ADDRESS:
            return (protocol, number) in self.numbers
        return port in self.ports or (ANY_ADDRESS, protocol, number) in self.ports

    def put(self, uid: str, footprint: Footprint) -> None:
        """Count a pod, in place of what was counted of it."""
        known = self.pods.get(uid)
        if known is not footprint:
            if known is not None:
                self._take(known, -1)
            self.pods[uid] = footprint
            self._take(footprint, 1)

    def drop(self, uid: str) -> bool:
        """Count a pod no more, and tell whether it was counted."""
        known = self.pods.pop(uid, None)
        if known is None:
            return False
        self._take(known, -1)
        if len(known.amounts) + len(known.ports) > _MOST_ENTRIES:
            # A dict keeps the room of names that are gone until something new comes, a copy has none.
            self.amounts, self.ports, self.numbers = dict(self.amounts), dict(self.ports), dict(self.numbers)
        return True

    def _take(self, footprint: Footprint, sign: int) -> None:
        for name, amount in footprint.amounts:
            _count(self.amounts, name, sign * amount)
        for port in footprint.ports:
            _count(self.ports, port, sign)
            _count(self.numbers, port[1:], sign)


def _count(sums: dict[_Key, int], key: _Key, by: int) -> None:
    """Change the sum of a key; of one that comes to nothing not even the key is kept."""
    left = sums.get(key, 0) + by
    if left:
        sums[key] = left
    else:
        sums.pop(key, None)


NOBODY = NodeUsage()
"""The usage of a node without pods; not to be changed."""


class HostUsage:
    """The bound pods of all nodes. ``ignored`` resources are somebody else's to count.

    is_complete  whether a complete list of pods was taken: before it the sums mean nothing
    """

    def __init__(self, ignored: Iterable[str] = ()) -> None:
        self.is_complete = False
        self._ignored = frozenset(ignored)
        self._followers: list[Callable[[str], None]] = []
        self._nodes: dict[str, NodeUsage] = {}
        self._footprints: dict[object, Footprint] = {}
        self._unlisted: set[str] = set()

    @property
    def ignored(self) -> frozenset[str]:
        """Resources that are not counted, because kube-scheduler leaves them to its extender."""
        return self._ignored

    def on(self, node: str) -> NodeUsage:
        """Return what the pods of a node take."""
        return self._nodes.get(node, NOBODY)

    def follow(self, tell: Callable[[str], None]) -> None:
        """Tell somebody from now on of each node that may be other than before; here nothing is kept of them."""
        self._followers.append(tell)

    def touch(self, node: str) -> None:
        """Take that a node may be other than before."""
        for tell in self._followers:
            tell(node)

    def uids(self) -> Iterator[str]:
        """Give the pods that are counted."""
        return (uid for usage in self._nodes.values() for uid in usage.pods)

    def begin_list(self) -> None:
        """Take that a complete list begins: pods that do not stand in it are gone."""
        self._unlisted = set(self.uids())

    def note_listed(self, uid: str) -> None:
        """Take that a pod stands in the list."""
        self._unlisted.discard(uid)

    def end_list(self) -> None:
        """Take that the list is complete."""
        for node in list(self._nodes):
            for uid in self._unlisted & self._nodes[node].pods.keys():
                self.delete(uid, node)
        self._unlisted = set()
        self.is_complete = True

    def apply(self, pod: HostPod) -> None:
        """Take a pod as it is now: it counts from being bound until it is over."""
        node, uid = pod.spec.node_name, pod.metadata.uid
        if not node:
            return
        if pod.is_over:
            self.delete(uid, node)
            return
        usage = self._nodes.setdefault(node, NodeUsage())
        known = usage.pods.get(uid)
        # To read it takes a tenth of a second, and its owner can change its labels as often as he likes.
        if known is None or not known.is_cut:
            usage.put(uid, self._read(pod))
            self.touch(node)

    def delete(self, uid: str, node: str = "") -> None:
        """Take that a pod is gone; of one whose node is not told, all are asked."""
        for name in [node] if node else list(self._nodes):
            usage = self._nodes.get(name)
            if usage is not None and usage.drop(uid):
                if not usage.pods:
                    del self._nodes[name]
                self.touch(name)

    def _read(self, pod: HostPod) -> Footprint:
        """Return what a pod takes of its node: of pods that are alike in all that it follows from, one is read."""
        likeness = _find_likeness(pod)
        known = self._footprints.get(likeness)
        if known is not None:
            return known
        requests, ports = read_requests(pod, self._ignored), read_host_ports(pod)
        is_cut = max(len(requests), len(ports)) > MOST_NAMES
        if len(requests) > MOST_NAMES:
            requests = {name: requests[name] for name in COUNTED if name in requests}
        footprint = Footprint(tuple(sorted(requests.items())), ports[:MOST_NAMES], pod.priority, is_cut)
        if likeness is not None:
            if len(self._footprints) >= _MOST_FOOTPRINTS:
                self._footprints.clear()
            self._footprints[likeness] = footprint
        return footprint


def _find_likeness(pod: HostPod) -> object:
    """Return all that a footprint follows from, as a key; None for a pod that is not worth remembering."""
    spec, containers = pod.spec, pod.all_containers
    if spec.resources or spec.overhead or len(containers) > _MOST_ENTRIES:
        return None
    entries, parts = len(containers), []
    for container in containers:
        limits, requests, ports = container.limits, container.requests, container.ports or ()
        entries += len(limits) + len(requests) + len(ports)
        if entries > _MOST_ENTRIES:
            return None
        parts.append((tuple(limits.items()), tuple(requests.items()), ports, container.restart_policy))
    return spec.priority, len(pod.init_containers), spec.host_network, tuple(parts)
