"""The three truths about a node's cards, in comparable form: promises, the kubelet's book, and the driver's. Pure.

Nothing here comes from files that containers can write.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuloom.engine.request.demand import read_container_types
from gpuloom.engine.state.foreign_pods import is_foreign
from gpuloom.engine.state.usage import Usage, collapse
from gpuloom.model.card import Card
from gpuloom.model.share import ContainerShares, in_places
from gpuloom.node.replicas import card_of_share, is_instance, is_instance_resource
from gpuloom.wire.devices import count_devices
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import DEVICES_ALLOCATED
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import decode_shares

VENDOR = "NVIDIA"
_STATIC_UID = "kubernetes.io/config.mirror"
"""On the API server's mirror of a static pod: the UID under which the kubelet runs it."""

ContainerName = tuple[str, str, str]
"""Namespace, pod and container."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What a pod of the node was promised; ``cards`` by UUID, ``counts`` is how many devices by container name.

    ``is_readable`` is False when its annotation cannot be read: then nothing is known. A pod that ``has_ended`` has no
    promise any more. One that ``has_instances`` which an administrator made computes on a card that nobody names.
    One that ``is_foreign`` asks for devices and came past the scheduler. Its processes run under the UID ``runs_as``,
    which is another than its own for the mirror of a static pod.
    """

    uid: str
    namespace: str
    name: str
    cards: Mapping[str, Usage]
    counts: Mapping[str, int]
    is_readable: bool = True
    has_ended: bool = False
    has_instances: bool = False
    is_foreign: bool = False
    runs_as: str = ""

    @property
    def full_name(self) -> str:
        """``namespace/name``, as people write it."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Occupant:
    """A process that computes on a card; ``pod_uid`` is empty for one that belongs to no pod."""

    card_uuid: str
    pid: int
    memory_bytes: int | None
    pod_uid: str


@dataclass(frozen=True, slots=True)
class Truths:
    """All that can be compared now; what could not be found out is None.

    ``offered`` are the node's cards as registered, by UUID; ``held`` is how many devices each container has according
    to the kubelet.
    """

    promises: Sequence[Promise]
    offered: Mapping[str, Card] | None = None
    held: Mapping[ContainerName, int] | None = None
    occupants: Sequence[Occupant] | None = None


def read_promise(pod: Pod, resource: str) -> Promise:
    """Read what a pod of this node, which gives cards away as ``resource``, was promised."""
    meta = pod.metadata
    text = "" if pod.is_over else pod.annotations.get(DEVICES_ALLOCATED, "")
    try:
        containers = [_keep_ours(shares) for shares in in_places(decode_shares(text), len(pod.all_containers))]
    except WireError:
        return Promise(meta.uid, meta.namespace, meta.name, {}, {}, is_readable=False)
    cards: dict[str, Usage] = {}
    for uuid, usage in collapse(containers, read_container_types(pod)).items():
        card = card_of_share(uuid)
        cards[card] = cards[card] + usage if card in cards else usage
    counts = {
        container.name: len(shares) for container, shares in zip(pod.all_containers, containers, strict=False) if shares
    }
    has_instances = any(is_instance(card) for card in cards) or any(
        is_instance_resource(name) for container in pod.all_containers for name in container.limits
    )
    asks = any(count_devices(container, resource) != 0 for container in pod.all_containers)
    return Promise(
        meta.uid,
        meta.namespace,
        meta.name,
        cards,
        counts,
        has_ended=pod.is_over,
        has_instances=has_instances,
        is_foreign=asks and is_foreign(pod),
        runs_as=pod.annotations.get(_STATIC_UID, meta.uid),
    )


def _keep_ours(shares: ContainerShares) -> ContainerShares:
    return tuple(share for share in shares if share.vendor == VENDOR)
