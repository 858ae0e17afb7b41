"""Generated nodes: what the node plugins of each vendor write, or what a node's capacity says."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oracle.choosers import Chooser, happens
from oracle.registration import NoCardsError, RegistrationError
from oracle.selectors import CORDON
from oracle.vendors.family import CapacityFamily, Family
from oracle.vendors.records import Card, JsonObject

MEMORY_MIB = (16384, 32768, 65536)
HANDSHAKES = (
    "Reported 2024-11-20 03:28:00",
    "Requesting_2024-11-20 03:28:10",
    "Requesting_2024-11-20 03:20:00",
    "Requesting",
    "Deleted_2024-11-20 03:20:00",
)


@dataclass(slots=True)
class Said:
    """What a node says of one family."""

    annotations: dict[str, str] = field(default_factory=dict)
    capacity: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


def some_node(chooser: Chooser, name: str, families: Sequence[Family]) -> JsonObject:
    """Generate a node with cards of some families."""
    metadata: JsonObject = {"name": name, "annotations": {}, "labels": {}}
    status: JsonObject = {"capacity": {}, "allocatable": {}}
    for family in families:
        said = MAKERS.get(family.word, _common)(chooser, name, family)
        metadata["annotations"] |= said.annotations
        metadata["labels"] |= said.labels
        status["capacity"] |= said.capacity
        if happens(chooser, 90):
            status["allocatable"][family.count] = "10"
        if family.handshake and happens(chooser, 15):
            metadata["annotations"][family.handshake] = chooser.choose(HANDSHAKES)
    node = {"kind": "Node", "metadata": metadata, "status": status}
    cards = [card for family in families for card in _cards_of(family, node)]
    if cards and happens(chooser, 10):
        metadata["annotations"][CORDON] = ",".join(card.id for card in cards if happens(chooser, 60))
    return node


def _cards_of(family: Family, node: JsonObject) -> list[Card]:
    try:
        return family.cards(node)
    except (NoCardsError, RegistrationError):
        return []


def changed_node(chooser: Chooser, node: JsonObject, family: Family) -> JsonObject:
    """Return the node with something else said of a family."""
    node = json.loads(json.dumps(node))
    annotations, status = node["metadata"]["annotations"], node["status"]
    change = chooser.choose(("register", "handshake", "gone", "capacity"))
    if change == "register" and family.register:
        annotations[family.register] = chooser.choose(("[]", "broken", annotations.get(family.register, "null")))
    if change == "handshake" and family.handshake:
        annotations[family.handshake] = chooser.choose(HANDSHAKES)
    if change == "gone":
        annotations.pop(family.register, None)
    if change == "capacity":
        status["allocatable"].pop(family.count, None)
        status["capacity"].pop(family.count, None)
    return node


def _common(chooser: Chooser, node: str, family: Family) -> Said:
    if isinstance(family, CapacityFamily):
        return _some_capacity(chooser, family)
    return _register(chooser, node, family, chooser.choose((1, 2, 4)))


def _some_capacity(chooser: Chooser, family: CapacityFamily) -> Said:
    number = chooser.choose((1, 2, 4))
    capacity = {family.unit: str(number * family.per_card - (7 if family.per_card > 1 and happens(chooser, 10) else 0))}
    if family.memory:
        capacity[family.memory] = str(number * chooser.choose(MEMORY_MIB) // family.factor)
    return Said(capacity=capacity)


def _register(
    chooser: Chooser,
    node: str,
    family: Family,
    number: int,
    info: Callable[[int], Mapping[str, Any]] | None = None,
    *,
    memory: int = 0,
    cores: int = 100,
    model: str = "",
    count: int = 0,
    missing: Collection[int] = (),
) -> Said:
    memory = memory or chooser.choose(MEMORY_MIB)
    records = []
    for at in (at for at in range(number) if at not in missing):
        record = {
            "id": f"{node}-{family.word}-{at}",
            "count": count or chooser.choose((10, 4, 1)),
            "devmem": memory,
            "devcore": cores,
            "type": model or chooser.choose((f"{family.word}-K100_AI", f"{family.word}-Z100")),
            "numa": chooser.number(0, 1),
            "health": not happens(chooser, 8),
            "index": at,
        }
        records.append(record | ({"custominfo": dict(info(at))} if info else {}))
    if happens(chooser, 20):
        chooser_order = list(reversed(records))
        records = chooser_order
    if info is None and happens(chooser, 30):
        return Said({family.register: "".join(_csv(record) for record in records)})
    return Said({family.register: json.dumps(records)})


def _csv(record: JsonObject) -> str:
    fields = [record[name] for name in ("id", "count", "devmem", "devcore", "type", "numa")]
    health = "true" if record["health"] else "false"
    return ",".join(map(str, [*fields, health, record["index"], "hami-core"])) + ":"


def _nvidia(chooser: Chooser, node: str, family: Family) -> Said:
    return _register(chooser, node, family, chooser.choose((1, 2)), model="NVIDIA A40")


def _eight(chooser: Chooser, _node: str, family: Family) -> Said:
    return Said(capacity={family.count: str(chooser.choose((8, 8, 8, 4, 5)))})


def _xpu(chooser: Chooser, node: str, family: Family) -> Said:
    number, missing = chooser.choose((8, 8, 4)), chooser.choose(((), (), (3,), (0, 5), (3, 7)))
    return _register(chooser, node, family, number, memory=98304, model="KUNLUN", missing=missing)


def _neuron(chooser: Chooser, _node: str, family: Family) -> Said:
    number, each = chooser.choose((1, 2, 4, 8, 16)), chooser.choose((2, 1))
    kind = chooser.choose(("inf2.24xlarge", "trn1.32xlarge", ""))
    labels = {"node.kubernetes.io/instance-type": kind} if kind else {}
    return Said(capacity={family.count: str(number), family.cores: str(number * each)}, labels=labels)


def _vastai(chooser: Chooser, node: str, family: Family) -> Said:
    number = chooser.choose((4, 2, 6))
    if happens(chooser, 30):
        return _register(chooser, node, family, number, model="VA1")
    die = {"DeviceStrategy": "die"}
    groups = chooser.choose((2, 3))
    return _register(
        chooser,
        node,
        family,
        number,
        lambda at: die | {"AIC": f"aic-{at // groups}"},
        model="VA1",
        count=chooser.choose((1, 2)),
    )


def _amd(chooser: Chooser, node: str, family: Family) -> Said:
    model, cores = chooser.choose(("AMD Instinct MI300X VF", "AMD Instinct MI210")), chooser.choose((304, 104))
    said = _register(chooser, node, family, chooser.choose((1, 2, 4)), lambda _: {}, cores=cores, model=model)
    said.capacity[family.count] = "0" if happens(chooser, 5) else "10"
    return said


def _ascend(chooser: Chooser, node: str, family: Any) -> Said:
    number = chooser.choose((8, 4, 2))
    memory, cores = family.config["memoryAllocatable"], family.config["aiCore"]
    networks = happens(chooser, 80)
    said = _register(
        chooser,
        node,
        family,
        number,
        (lambda at: {"NetworkID": 0 if family.config.get("superPod") else at // chooser.choose((4, 4, 2))})
        if networks
        else None,
        memory=memory,
        cores=cores,
        model=family.word,
        count=chooser.choose((7, 7, 1)),
    )
    if happens(chooser, 40):
        said.annotations["hami-vnpu-core"] = chooser.choose(("true", "true", "false", "1"))
    return said


def _enflame(chooser: Chooser, _node: str, _family: Family) -> Said:
    every = {"1g.8gb": "0", "2g.16gb": "1", "3g.24gb": "2", "6g.48gb": "3"}
    some = {"1g.8gb": "0", "2g.8gb": "4", "6g.48gb": "3"}
    profiles = chooser.choose((every, every, some, {"1g.5gb": "0", "3g.20gb": "7"}))
    devices = [
        {"index": str(at), "minor": str(at + 3), "capacity": chooser.choose((6, "6", 3))}
        for at in range(chooser.choose((1, 2, 4)))
    ]
    if happens(chooser, 4):
        profiles = {}
    return Said({"enflame.com/gcu-drs-capacity": json.dumps({"devices": devices, "profiles": profiles})})


def _metax_gpu(chooser: Chooser, _node: str, family: Family) -> Said:
    said = Said(capacity={family.count: str(chooser.choose((4, 2, 8)))})
    for key in ("losses", "scores"):
        if happens(chooser, 70):
            table = {str(number): chooser.number(0, 300) for number in range(1, chooser.choose((9, 3)))}
            said.annotations[f"metax-tech.com/gpu.topology.{key}"] = json.dumps(table)
    return said


def _metax_sgpu(chooser: Chooser, node: str, family: Family) -> Said:
    zones = chooser.choose(((1, 1, 2), (1, 2, 2), (0, 1, 1), (0, 0, 0), (1, 2, 3)))
    cards = [
        {
            "uuid": f"{node}-{family.word}-{at}",
            "bdf": f"0000:{at}",
            "model": "MXC500",
            "totalDevCount": chooser.choose((16, 2, 1)),
            "totalCompute": 100,
            "totalVRam": 65536,
            "availableDevCount": 1,
            "numa": chooser.number(0, 1),
            "healthy": not happens(chooser, 8),
            "qosPolicy": chooser.choose(("", "fixed-share", "best-effort")),
            "linkZone": zones[at % 3],
        }
        for at in range(chooser.choose((3, 2, 4, 6)))
    ]
    return Said({"metax-tech.com/node-gpu-devices": json.dumps(cards)})


MAKERS: dict[str, Callable[[Chooser, str, Any], Said]] = {
    "NVIDIA": _nvidia,
    "kunlun": _eight,
    "XPU": _xpu,
    "AWSNeuron": _neuron,
    "Vastai": _vastai,
    "AMD": _amd,
    "Enflame": _enflame,
    "Metax-GPU": _metax_gpu,
    "Metax-SGPU": _metax_sgpu,
} | dict.fromkeys(
    ("Ascend910A", "Ascend910B2", "Ascend910B3", "Ascend910B4", "Ascend910B4-1", "Ascend910C", "Ascend310P"), _ascend
)
