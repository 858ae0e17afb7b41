"""Generated clusters of several families on each node, and what the oracle says of pods that ask for one of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oracle.answer import refusal_events, success_event
from oracle.choosers import Chooser, happens
from oracle.device import DeviceUsage, NodeUsage, idle_usage
from oracle.families import FAMILIES, Asking, Family, UnfitError, cards_of_capacity, place, read_request
from oracle.order import sort_nodes
from oracle.records import AllocatedDevice, RegisteredCard
from oracle.scores import node_score
from oracle.settings import read_settings

JsonObject = dict[str, Any]
MEMORY_MIB = (1024, 16384, 32768)


@dataclass(slots=True)
class FamilyNode:
    """A node as JSON, and the usage of its cards by family."""

    raw: JsonObject
    usage: dict[str, NodeUsage] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self.raw["metadata"]["name"])

    @property
    def cards(self) -> list[DeviceUsage]:
        """The cards of all families."""
        return [device for usage in self.usage.values() for device in usage]


@dataclass(frozen=True, slots=True)
class FamilyCase:
    """A recording whose last line is the question, and the answer's parts that the oracle knows."""

    lines: tuple[JsonObject, ...]
    nodes: list[str] | None
    failed: Mapping[str, str] | None
    messages: Sequence[str]
    annotations: Mapping[str, str]


def some_family_case(chooser: Chooser) -> FamilyCase:
    """Generate nodes, pods on them, maybe a quota, and a pod."""
    family = chooser.choose(FAMILIES)
    nodes = [_some_node(chooser, f"n{at}", family) for at in range(chooser.choose((1, 2, 3)))]
    flags: JsonObject = {"enable-iluvatar": True, "pod-label": False}
    flags["node-scheduler-policy"] = chooser.choose(("binpack", "spread"))
    flags["gpu-scheduler-policy"] = chooser.choose(("spread", "binpack", "mutex", "numa,binpack"))
    if happens(chooser, 20):
        flags["device-sort"] = "score-first"
    lines: list[JsonObject] = [{"type": "SETTINGS", "flags": flags, "time": "2024-11-20T03:28:15Z"}]
    lines += [{"type": "ADDED", "object": node.raw} for node in nodes]
    lines.append({"type": "RECONCILE"})
    used_mib = used_cores = 0
    for at in range(chooser.number(0, 5)):
        node = chooser.choose(nodes)
        word = chooser.choose(sorted(node.usage))
        device = chooser.choose(node.usage[word])
        share = _some_share(chooser, device, word)
        device.charge(share)
        if word == family.word:
            used_mib, used_cores = used_mib + share.usedmem, used_cores + share.usedcores
        lines.append({"type": "ADDED", "object": _running_pod(f"r{at}", node.name, share)})
    limits = [_some_limits(chooser, family) for _ in range(chooser.choose((1, 1, 2)))]
    annotations = _some_annotations(chooser, family, nodes)
    asking = Asking(family, [read_request(family, one) for one in limits], annotations, flags["gpu-scheduler-policy"])
    if family.memory and happens(chooser, 25):
        memory, cores = chooser.choose((0, 40, 200)), chooser.choose((50, 100, 250))
        hard = {f"limits.{family.memory}": str(memory), f"limits.{family.cores}": str(cores)}
        quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}}
        lines.append({"type": "ADDED", "object": quota})
        asking.left_mib, asking.left_cores = memory * family.factor - used_mib, cores - used_cores
    lines.append({"type": "FILTER", "id": "q", "args": _ask(limits, annotations, nodes)})
    return _answer(tuple(lines), nodes, asking, flags)


def _answer(
    lines: tuple[JsonObject, ...], nodes: Sequence[FamilyNode], asking: Asking, flags: JsonObject
) -> FamilyCase:
    known = {name: value for name, value in flags.items() if name != "enable-iluvatar"}
    settings = read_settings(known)
    fitting: dict[str, list[list[AllocatedDevice]]] = {}
    scores: dict[str, float] = {}
    failed: dict[str, str] = {}
    for node in nodes:
        try:
            fitting[node.name] = place(node.usage.get(asking.family.word, []), asking, settings)
        except UnfitError as error:
            failed[node.name] = str(error)
        else:
            scores[node.name] = node_score(node.cards)
    if not fitting:
        events = refusal_events(len(nodes), failed)
        return FamilyCase(lines, None, failed, [one.message for one in events], {})
    ordered = dict(sort_nodes(scores, str(flags["node-scheduler-policy"])))
    best = list(ordered)[-1]
    text = "".join(
        "".join(f"{one.uuid},{one.type},{one.usedmem},{one.usedcores}:" for one in shares) + ";"
        for shares in fitting[best]
    )
    family = asking.family
    written = {family.allocated: text} | ({family.to_allocate: text} if family.is_listed else {})
    return FamilyCase(lines, [best], None, [success_event(len(nodes), ordered).message], written)


def _some_node(chooser: Chooser, name: str, family: Family) -> FamilyNode:
    node = FamilyNode({"kind": "Node", "metadata": {"name": name, "annotations": {}}, "status": {"capacity": {}}})
    others = [chooser.choose(FAMILIES)] if happens(chooser, 50) else []
    for one in {other.word: other for other in (*others, *([family] if happens(chooser, 90) else []))}.values():
        number, memory_mib = chooser.choose((1, 2, 4)), chooser.choose(MEMORY_MIB)
        if one.register:
            cards = [_some_card(chooser, one, name, at, memory_mib) for at in range(number)]
            node.raw["metadata"]["annotations"][one.register] = json.dumps([_tell(card) for card in cards])
        else:
            cores, memory = number * one.per_card, number * memory_mib // one.factor
            node.raw["status"]["capacity"] |= {one.cores: str(cores), one.memory: str(memory)}
            cards = cards_of_capacity(one, name, cores, memory)
        node.usage[one.word] = idle_usage(cards)
    if not node.usage:
        card = RegisteredCard(f"{name}-GPU", 0, 10, 1000, 100, "A40")
        node.raw["metadata"]["annotations"]["hami.io/node-nvidia-register"] = json.dumps([_tell(card)])
        node.raw["status"]["allocatable"] = {"nvidia.com/gpu": "10"}
        node.usage["NVIDIA"] = idle_usage([card])
    return node


def _some_card(chooser: Chooser, family: Family, node: str, at: int, memory_mib: int) -> RegisteredCard:
    return RegisteredCard(
        f"{node}-{family.word}-{at}",
        at,
        chooser.choose((10, 4, 1)),
        memory_mib,
        100,
        chooser.choose(("K100_AI", "Z100")),
        numa=chooser.number(0, 1),
        health=not happens(chooser, 10),
    )


def _tell(card: RegisteredCard) -> JsonObject:
    return {
        "id": card.id,
        "index": card.index,
        "count": card.count,
        "devmem": card.devmem,
        "devcore": card.devcore,
        "type": card.type,
        "numa": card.numa,
        "health": card.health,
    }


def _some_share(chooser: Chooser, device: DeviceUsage, word: str) -> AllocatedDevice:
    memory = device.card.devmem * chooser.choose((1, 2, 4)) // 4
    cores = chooser.choose((0, device.card.devcore // 4, device.card.devcore))
    return AllocatedDevice(device.card.id, memory, cores, type=word)


def _running_pod(name: str, node: str, share: AllocatedDevice) -> JsonObject:
    lists = {family.word: family.allocated for family in FAMILIES} | {"NVIDIA": "hami.io/vgpu-devices-allocated"}
    text = f"{share.uuid},{share.type},{share.usedmem},{share.usedcores}:;"
    annotations = {"hami.io/vgpu-node": node, lists[share.type]: text}
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": annotations}
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node, "containers": [{"name": "c"}]}}


def _some_limits(chooser: Chooser, family: Family) -> dict[str, int]:
    limits = {family.count: chooser.choose((1, 2, 1, 4))}
    if family.memory and happens(chooser, 70):
        limits[family.memory] = chooser.choose((4, 16, 30, 64))
    if family.cores and happens(chooser, 60):
        limits[family.cores] = chooser.choose((4, 16, 50, 100, 200))
    return limits


def _some_annotations(chooser: Chooser, family: Family, nodes: Sequence[FamilyNode]) -> dict[str, str]:
    annotations: dict[str, str] = {}
    ids = [device.card.id for node in nodes for device in node.usage.get(family.word, [])] or ["x"]
    for key in family.ids:
        if happens(chooser, 15):
            annotations[key] = ", ".join(chooser.choose(ids) for _ in range(2))
    for key in family.models or ():
        if happens(chooser, 20):
            annotations[key] = chooser.choose(("k100", "Z100", "other,z1", " "))
    return annotations


def _ask(
    limits: Sequence[Mapping[str, int]], annotations: Mapping[str, str], nodes: Sequence[FamilyNode]
) -> JsonObject:
    containers = [
        {"name": f"c{at}", "resources": {"limits": {name: str(amount) for name, amount in one.items()}}}
        for at, one in enumerate(limits)
    ]
    metadata = {"name": "p", "namespace": "default", "uid": "p", "annotations": dict(annotations)}
    pod = {"kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}
    return {"Pod": pod, "NodeNames": [node.name for node in nodes]}
