"""Generated clusters: nodes with cards and pods on them, as API objects; the same seed gives the same cluster."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from gpuloom.model.share import Share
from gpuloom.wire.keys import (
    DEVICES_ALLOCATED,
    DEVICES_TO_ALLOCATE,
    NODE_HANDSHAKE,
    NODE_REGISTER,
    VGPU_NODE,
    VGPU_TIME,
)
from gpuloom.wire.shares import encode_shares

Json = dict[str, Any]

CARDS_PER_NODE = 8
VENDOR, COUNT, MEMORY, CORES = "NVIDIA", "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
MODELS = (("NVIDIA A100-SXM4-40GB", 40960), ("NVIDIA L4", 23034), ("NVIDIA H100 80GB HBM3", 81559))
SLOTS = 10
NAMESPACES = 20
ASKED = "Requesting_2099-01-01 00:00:00"
"""Plugins of today are asked once and never answer; asking all at once is the start's work, not the calls'."""
STARTED = "1777881600"
"""Unix seconds at which all pods were decided."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a cluster is."""

    nodes: int
    pods: int
    seed: int = 1


@dataclass(slots=True)
class _Room:
    """What is left of a card."""

    uuid: str
    memory_mib: int
    cores: int = 100
    slots: int = SLOTS


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """The objects of a cluster, as the API server would give them."""

    nodes: list[Json] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)

    @property
    def node_names(self) -> list[str]:
        """Names of all nodes, in order."""
        return [node["metadata"]["name"] for node in self.nodes]


def make_cluster(scale: Scale) -> ClusterObjects:
    """Make nodes of several models, unevenly filled with pods that hold a share of one card each."""
    nodes, pods = begin_cluster(scale)
    return ClusterObjects(nodes, list(pods))


def begin_cluster(scale: Scale) -> tuple[list[Json], Iterator[Json]]:
    """Make the same cluster with its pods one by one: half a million of them at once take 2 GB."""
    random = Random(scale.seed)
    rooms: dict[str, list[_Room]] = {}
    nodes = [_make_node(name, number, random, rooms) for number, name in enumerate(name_nodes(scale.nodes))]
    return nodes, _make_pods(scale.pods, random, rooms)


def name_nodes(count: int) -> list[str]:
    """Name the nodes of a cluster of this size."""
    return [f"node-{number:05d}" for number in range(count)]


def make_pod(number: int, *, memory_mib: int, cores: int, containers: int = 1, cards: int = 1) -> Json:
    """Make a pod that asks for shares, not yet decided about."""
    limits = {COUNT: str(cards), MEMORY: str(memory_mib), CORES: str(cores)}
    return {
        "metadata": {
            "name": f"pod-{number}",
            "namespace": f"team-{number % NAMESPACES}",
            "uid": f"{number:08x}-5e1f-4c0d-9a8b-0123456789ab",
        },
        "spec": {
            "schedulerName": "hami-scheduler",
            "containers": [{"name": f"c{place}", "resources": {"limits": limits}} for place in range(containers)],
        },
        "status": {"phase": "Pending"},
    }


def _make_node(name: str, number: int, random: Random, rooms: dict[str, list[_Room]]) -> Json:
    model, memory_mib = random.choice(MODELS)
    cards = [
        {
            "id": f"GPU-{number:08x}-{place:04x}-4d3c-8b2a-{random.getrandbits(48):012x}",
            "index": place,
            "count": SLOTS,
            "devmem": memory_mib,
            "devcore": 100,
            "type": model,
            "numa": place * 2 // CARDS_PER_NODE,
            "mode": "hami-core",
            "health": True,
        }
        for place in range(CARDS_PER_NODE)
    ]
    rooms[name] = [_Room(str(card["id"]), memory_mib) for card in cards]
    count = {COUNT: str(SLOTS * CARDS_PER_NODE)}
    register = msgspec.json.encode(cards).decode()
    return {
        "metadata": {
            "name": name,
            "annotations": {NODE_REGISTER: register, NODE_HANDSHAKE: ASKED},
            "labels": {"gpu": "on"},
        },
        "status": {"allocatable": count, "capacity": count},
    }


def _make_pods(count: int, random: Random, rooms: dict[str, list[_Room]]) -> Iterator[Json]:
    names = list(rooms)
    # Squared, so that many nodes are nearly empty and some are full.
    favour = [random.random() ** 2 + 0.02 for _ in names]
    number = 0
    while number < count:
        for name in random.choices(names, favour, k=1000):
            share = _take(random.choice(rooms[name]), random)
            if share is not None and number < count:
                yield _make_running_pod(number, name, share)
                number += 1


def _take(room: _Room, random: Random) -> Share | None:
    memory_mib, cores = random.randrange(500, 6000, 500), random.choice((0, 5, 10, 20))
    if room.memory_mib < memory_mib or room.cores < cores or not room.slots:
        return None
    room.memory_mib, room.cores, room.slots = room.memory_mib - memory_mib, room.cores - cores, room.slots - 1
    return Share(room.uuid, VENDOR, memory_mib, cores)


def _make_running_pod(number: int, node: str, share: Share) -> Json:
    pod = make_pod(number, memory_mib=share.memory_mib, cores=share.cores)
    shares = encode_shares(((share,),))
    pod["metadata"]["annotations"] = {
        VGPU_NODE: node,
        VGPU_TIME: STARTED,
        DEVICES_TO_ALLOCATE: shares,
        DEVICES_ALLOCATED: shares,
    }
    pod["spec"]["nodeName"] = node
    pod["status"] = {"phase": "Running"}
    return pod
