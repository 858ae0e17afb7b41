"""Short ways to write the pods, nodes and snapshots of examples."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gpuloom.wire.objects import Container, Node, Pod
from oracle.device import DeviceUsage
from oracle.fit import Collected, Question, fit
from oracle.records import Cluster, CountedPod, RegisteredCard, RegisteredNode, Request, container_kinds
from oracle.settings import Settings

Amounts = Mapping[str, str | int]


def a_container(limits: Amounts | None = None, *, requests: Amounts | None = None, name: str = "c") -> dict[str, Any]:
    """Return a container object; names without a slash are NVIDIA's resources."""
    return {"name": name, "resources": {"limits": _full(limits), "requests": _full(requests)}}


def a_request(limits: Amounts | None = None, *, requests: Amounts | None = None) -> Container:
    """Return a decoded container."""
    return msgspec.convert(a_container(limits, requests=requests), Container)


def a_pod(
    *limits: Amounts,
    init: Sequence[Amounts] = (),
    sidecars: Sequence[Amounts] = (),
    annotations: Mapping[str, str] | None = None,
    name: str = "p",
    node: str = "",
) -> Pod:
    """Return a pod with one regular container per mapping of limits; sidecars come before the other init containers."""
    early = [a_container(amounts, name=f"s{at}") | {"restartPolicy": "Always"} for at, amounts in enumerate(sidecars)]
    early += [a_container(amounts, name=f"i{at}") for at, amounts in enumerate(init)]
    raw = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations or {}},
        "spec": {
            "containers": [a_container(amounts, name=f"c{at}") for at, amounts in enumerate(limits)],
            "initContainers": early,
            "nodeName": node,
        },
    }
    return msgspec.convert(raw, Pod)


def a_node(*cards: RegisteredCard, name: str = "n0", annotations: Mapping[str, str] | None = None) -> RegisteredNode:
    """Return a registered node."""
    raw = {"metadata": {"name": name, "annotations": annotations or {}}}
    return RegisteredNode(cards, msgspec.convert(raw, Node))


def a_cluster(*nodes: RegisteredNode, pods: Sequence[CountedPod] = ()) -> Cluster:
    """Return a cluster without quotas."""
    return Cluster({node.node.name: node for node in nodes}, {pod.pod.metadata.uid: pod for pod in pods})


def a_question(
    pod: Pod, *, settings: Settings | None = None, policy: str = "spread", numa_bind: bool = False
) -> Question:
    """Return the circumstances of a first container on an otherwise empty cluster."""
    return Question(
        pod=pod,
        kinds=container_kinds(pod),
        position=0,
        earlier=[[] for _ in pod.all_containers],
        policy=policy,
        numa_bind=numa_bind,
        node=a_node(),
        cluster=a_cluster(),
        settings=settings or Settings(),
    )


def fitting_ids(
    devices: Sequence[DeviceUsage],
    request: Request,
    *,
    annotations: Mapping[str, str] | None = None,
    policy: str = "spread",
    numa_bind: bool = False,
) -> list[str]:
    """Return the cards that Fit chooses; the last device is tried first."""
    pod = a_pod({"gpu": 1}, annotations=annotations)
    return ids_of(fit(devices, request, a_question(pod, policy=policy, numa_bind=numa_bind)))


def ids_of(collected: Sequence[Collected]) -> list[str]:
    """Return the UUIDs of collected cards."""
    return [card.share.uuid for card in collected]


def _full(amounts: Amounts | None) -> dict[str, str | int]:
    return {key if "/" in key else f"nvidia.com/{key}": value for key, value in (amounts or {}).items()}
