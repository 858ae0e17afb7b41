"""Generated pods: what they ask of each vendor, and what they say in annotations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oracle.choosers import Chooser, happens
from oracle.vendors.family import Family
from oracle.vendors.records import JsonObject

Amounts = dict[str, str]
NONSENSE = frozenset({"x", "y"})
"""Words that the webhook refuses; what they mean where no webhook was asked, no specification says."""
CARD_POLICIES = ("binpack", "spread", "mutex", "numa,binpack", "mutex, spread", "first-fit, mutex")
ODD_AMOUNTS = ("0", "16Gi", "3000000000", "1k")
"""What passes the API server, which takes neither fractions nor negative numbers of such resources."""


def some_pod(chooser: Chooser, name: str, families: Sequence[Family], ids: Sequence[str]) -> JsonObject:
    """Generate a pod whose containers ask some families for cards; ``ids`` are cards that there are."""
    regular = [_some_container(chooser, f"c{at}", families) for at in range(chooser.choose((1, 1, 1, 2, 3)))]
    spec: JsonObject = {"containers": regular}
    if happens(chooser, 15):
        spec["initContainers"] = [_some_container(chooser, "i0", families)]
        if happens(chooser, 30):
            spec["initContainers"][0]["restartPolicy"] = "Always"
    annotations = _some_policies(chooser)
    for family in families:
        annotations |= _some_filters(chooser, family, ids) | SAYING.get(family.word, _nothing)(chooser)
    metadata = {"name": name, "namespace": chooser.choose(("default", "default", "other")), "uid": f"u-{name}"}
    return {"kind": "Pod", "metadata": metadata | {"annotations": annotations}, "spec": spec}


def _some_container(chooser: Chooser, name: str, families: Sequence[Family]) -> JsonObject:
    asked = [family for family in families if happens(chooser, 90 if len(families) == 1 else 55)]
    amounts: Amounts = {}
    for family in asked:
        amounts |= ASKING.get(family.word, _common)(chooser, family)
    if amounts and happens(chooser, 4):
        amounts[chooser.choose(sorted(amounts))] = chooser.choose(ODD_AMOUNTS)
    container: JsonObject = {"name": name, "resources": {"limits": amounts}}
    if happens(chooser, 8):
        container["resources"] = {"requests": amounts}
    if happens(chooser, 3):
        container["securityContext"] = {"privileged": True}
    return container


def _some_policies(chooser: Chooser) -> dict[str, str]:
    annotations = {}
    if happens(chooser, 30):
        annotations["hami.io/gpu-scheduler-policy"] = chooser.choose(CARD_POLICIES)
    if happens(chooser, 15):
        annotations["hami.io/node-scheduler-policy"] = chooser.choose(("spread", "binpack", "first-fit"))
    if happens(chooser, 15):
        annotations["hami.io/device-scoring-weights"] = chooser.choose(
            ("slot=1,core=1,memory=3", "slot=0, core=5, memory=1", "slot=1,core=0,memory=0")
        )
    return annotations


def _some_filters(chooser: Chooser, family: Family, ids: Sequence[str]) -> dict[str, str]:
    annotations = {}
    for use, nouse in family.ids:
        if happens(chooser, 8):
            annotations[use] = ", ".join(chooser.choose(ids) for _ in range(4))
        if happens(chooser, 8):
            annotations[nouse] = chooser.choose(ids)
    for key in family.models or ():
        if happens(chooser, 12):
            annotations[key] = chooser.choose(("k100", "Z100", "other,z1", " ", "Instinct", "MI210"))
    return annotations


def _common(chooser: Chooser, family: Family) -> Amounts:
    amounts = {family.count: str(chooser.choose((1, 2, 1, 4)))}
    if family.memory and happens(chooser, 70):
        units = chooser.choose((1, 4, 8, 16, 32)) * 1024 // family.factor
        amounts[family.memory] = str(units)
    if family.cores and happens(chooser, 60):
        amounts[family.cores] = str(chooser.choose((10, 25, 50, 100, 0, 200, 0)))
    return amounts


def _mthreads(chooser: Chooser, family: Family) -> Amounts:
    amounts = {family.count: str(chooser.choose((1, 1, 2)))}
    if happens(chooser, 70):
        amounts[family.memory] = str(chooser.choose((2, 4, 8, 16, 32, 64, 96, 30)))
    if happens(chooser, 60):
        amounts[family.cores] = str(chooser.choose((2, 4, 8, 16)))
    return amounts


def _wings(chooser: Chooser, family: Family) -> Amounts:
    amounts = {family.count: str(chooser.choose((1, 2, 4, 8, 1, 2, 3)))}
    if family.memory and happens(chooser, 80):
        amounts[family.memory] = str(chooser.choose((24576, 20000, 49152, 90000, 200000)))
    return amounts


def _neuron(chooser: Chooser, family: Family) -> Amounts:
    amounts = {}
    if happens(chooser, 50):
        amounts[family.count] = str(chooser.choose((1, 2, 4, 8, 16)))
    if not amounts or happens(chooser, 5):
        amounts[family.cores] = str(chooser.choose((1, 2, 1, 4, 3, 8)))
    return amounts


def _ascend(chooser: Chooser, family: Any) -> Amounts:
    amounts = {family.count: str(chooser.choose((1, 2, 1, 4, 3)))}
    if happens(chooser, 60):
        sizes = [template["memory"] for template in family.templates]
        amounts[family.memory] = str(
            chooser.choose((1000, *sizes, sizes[-1] - 5, family.config["memoryAllocatable"], 99999))
        )
    if happens(chooser, 25):
        amounts[family.cores] = str(chooser.choose((10, 50, 100)))
    return amounts


def _enflame(chooser: Chooser, family: Family) -> Amounts:
    amounts = {}
    if happens(chooser, 50):
        amounts[family.count] = str(chooser.choose((1, 2, 3, 6, 4)))
    if not amounts or happens(chooser, 5):
        amounts[family.memory] = str(chooser.choose((8, 16, 4, 24, 8192, 20000, 60000)))
        if happens(chooser, 50):
            amounts[family.cores] = str(chooser.choose((10, 17, 50, 100, 101)))
    return amounts


def _metax_sgpu(chooser: Chooser, family: Family) -> Amounts:
    amounts = {family.count: str(chooser.choose((1, 1, 2, 3)))}
    if happens(chooser, 60):
        amounts[family.cores] = str(chooser.choose((10, 30, 60, 100, 120, 0)))
    if happens(chooser, 60):
        amounts[family.memory] = chooser.choose(("4", "16", "500Mi", "4Gi", "4G", "64"))
    return amounts


def _metax_words(chooser: Chooser) -> dict[str, str]:
    annotations = {}
    if happens(chooser, 40):
        annotations["metax-tech.com/sgpu-app-class"] = chooser.choose(("online", "offline", "online", "offline", "x"))
    if happens(chooser, 40):
        word = chooser.choose(("fixed-share", "burst-share", "best-effort", "fixed-share", "y"))
        annotations["metax-tech.com/sgpu-qos-policy"] = word
    if happens(chooser, 30):
        annotations["metax-tech.com/sgpu-topology-aware"] = chooser.choose(("true", "false", "maybe"))
    return annotations


def _soft_split(chooser: Chooser) -> dict[str, str]:
    return {"huawei.com/vnpu-mode": "hami-core"} if happens(chooser, 30) else {}


def _nothing(_chooser: Chooser) -> dict[str, str]:
    return {}


CHIPS = ("Ascend910A", "Ascend910B2", "Ascend910B3", "Ascend910B4", "Ascend910B4-1", "Ascend910C", "Ascend310P")
ASKING: Mapping[str, Callable[[Chooser, Any], Amounts]] = {
    "Mthreads": _mthreads,
    "kunlun": _wings,
    "XPU": _wings,
    "AWSNeuron": _neuron,
    "Enflame": _enflame,
    "Metax-SGPU": _metax_sgpu,
} | dict.fromkeys(CHIPS, _ascend)
SAYING: Mapping[str, Callable[[Chooser], dict[str, str]]] = {"Metax-SGPU": _metax_words} | dict.fromkeys(
    CHIPS, _soft_split
)
