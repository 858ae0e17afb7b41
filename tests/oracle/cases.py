"""Generated cases: a whole recording each, small enough to be understood (recording 2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from oracle.choosers import Chooser, SeededChooser, happens
from oracle.somenodes import GEOMETRIES, JsonObject, SomeNode, some_node
from oracle.somepods import (
    CARD_POLICIES,
    NAMESPACES,
    NODE_POLICIES,
    end_init_containers,
    some_asking_pod,
    some_review,
    some_running_pod,
)

DEVICE_CONFIG: Final[JsonObject] = {
    "resourceCountName": "nvidia.com/gpu",
    "resourceMemoryName": "nvidia.com/gpumem",
    "resourceMemoryPercentageName": "nvidia.com/gpumem-percentage",
    "resourceCoreName": "nvidia.com/gpucores",
    "resourcePriorityName": "nvidia.com/priority",
    "defaultGPUNum": 1,
    "gpuCorePolicy": "default",
    "knownMigGeometries": list(GEOMETRIES),
}
SWITCHES: Final[tuple[tuple[str, Sequence[Any]], ...]] = (
    ("node-scheduler-policy", NODE_POLICIES[:3]),
    ("gpu-scheduler-policy", CARD_POLICIES[:6]),
    ("device-sort", ("numa-first", "score-first")),
    ("device-score-slots", ("nums", "one")),
    ("failed-node-reason", ("detail", "short")),
    ("no-request-event", (True, False)),
    ("simulation-reply", ("best", "all")),
    ("trust-annotations", (False, True)),
    ("privileged-gpu", ("skip", "deny")),
    ("exclusive-cores", (True, False)),
    ("admission-quota", (True, False)),
    ("strict-quantities", (True, False)),
    ("strip-owned-keys", (True, False)),
    ("force-overwrite-default-scheduler", (True, False)),
    ("handshake-probe", ("registered", "all")),
    ("handshake-cleanup", ("remove", "deleted")),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A recording of input lines; those that want an answer have an ``id``."""

    lines: tuple[JsonObject, ...]

    @property
    def questions(self) -> list[JsonObject]:
        """The lines that want an answer."""
        return [line for line in self.lines if "id" in line]


def some_case(chooser: Chooser) -> Case:
    """Generate settings, nodes, quotas, running pods, what happens to them, a review, and one to three decisions."""
    lines: list[JsonObject] = [_some_settings(chooser)]
    nodes = [some_node(chooser, f"n{at}") for at in range(chooser.choose((2, 1, 3, 5, 4)))]
    lines += [{"type": "ADDED", "object": node.raw} for node in nodes]
    lines.append({"type": "RECONCILE", "id": "pass"})
    lines += [{"type": "ADDED", "object": quota} for quota in _some_quotas(chooser, nodes)]
    for at in range(chooser.number(0, 6)):
        lines += _some_life(chooser, f"r{at}", nodes)
    if happens(chooser, 15):
        lines += _some_change(chooser, nodes)
    if happens(chooser, 15):
        lines.append({"type": "REVIEW", "id": "review", "review": some_review(chooser, nodes)})
    for at in range(chooser.choose((1, 2, 3))):
        name = "p0" if happens(chooser, 15) else f"p{at}"
        lines.append({"type": "FILTER", "id": str(at), "args": _some_args(chooser, name, nodes)})
    return Case(tuple(lines))


def case_from_seed(seed: int) -> Case:
    """Return the case of a seed: always the same."""
    return some_case(SeededChooser(seed))


def _some_settings(chooser: Chooser) -> JsonObject:
    flags: dict[str, Any] = {"scheduler-name": "hami-scheduler"}
    for name, values in SWITCHES:
        if happens(chooser, 30):
            flags[name] = chooser.choose(values)
    config = dict(DEVICE_CONFIG)
    if happens(chooser, 10):
        config["memoryFactor"] = 2
    if happens(chooser, 10):
        config["defaultMemory"] = 5000
    if happens(chooser, 10):
        config["defaultCores"] = 25
    if happens(chooser, 5):
        config |= {"overwriteEnv": True, "gpuCorePolicy": "force", "runtimeClassName": "nvidia"}
    return {"type": "SETTINGS", "flags": flags, "deviceConfig": {"nvidia": config}, "time": "2024-11-20T03:28:15Z"}


def _some_quotas(chooser: Chooser, nodes: Sequence[SomeNode]) -> list[JsonObject]:
    memory_mib = max((card.memory_mib for node in nodes for card in node.cards), default=1000)
    quotas = []
    for at in range(chooser.choose((0, 0, 0, 1, 2))):
        hard: dict[str, str] = {}
        if happens(chooser, 75):
            hard["limits.nvidia.com/gpumem"] = str(memory_mib * chooser.choose((2, 1, 3, 4)) // chooser.choose((1, 2)))
        if happens(chooser, 50):
            hard["limits.nvidia.com/gpucores"] = chooser.choose(("200", "100", "300", "50", "0"))
        metadata = {"name": f"q{at}", "namespace": chooser.choose(NAMESPACES)}
        quotas.append({"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    return quotas


def _some_life(chooser: Chooser, name: str, nodes: Sequence[SomeNode]) -> list[JsonObject]:
    """Return what the watch tells about one running pod: mostly only that it is there."""
    pod = some_running_pod(chooser, name, nodes)
    lines = [{"type": "ADDED", "object": pod}]
    if "initContainers" in pod["spec"] and happens(chooser, 50):
        lines.append({"type": "MODIFIED", "object": end_init_containers(pod)})
    elif happens(chooser, 5):
        lines.append({"type": "DELETED", "object": pod})
    return lines


def _some_change(chooser: Chooser, nodes: Sequence[SomeNode]) -> list[JsonObject]:
    """Return a change of a node object and the pass that follows it."""
    raw = chooser.choose(nodes).raw
    metadata, status = raw["metadata"], raw["status"]
    annotations = dict(metadata["annotations"])
    change = chooser.choose(("handshake", "count", "register", "cordon"))
    if change == "register":
        register = "hami.io/node-nvidia-register"
        annotations[register] = chooser.choose(("[]", "broken", annotations.get(register, "null").replace("n0-0", "x")))
    if change == "cordon":
        annotations["hami.io/device-cordon"] = "GPU-n0-0, GPU-n0-1"
    if change in {"handshake", "count"}:
        annotations["hami.io/node-handshake"] = chooser.choose(
            (
                "Requesting_2024-11-20 03:28:15",
                "Requesting_2024.11.20 03:28:10",
                "Reported now",
                "Deleted_x",
                "Requesting",
            )
        )
    if change == "count":
        status = {"allocatable": {"nvidia.com/gpu": chooser.choose(("0", "1"))}}
    node = {**raw, "metadata": {**metadata, "annotations": annotations}, "status": status}
    later = chooser.choose(("2024-11-20T03:28:30Z", "2024-11-20T03:29:15Z"))
    return [{"type": "MODIFIED", "object": node}, {"type": "RECONCILE", "id": "next pass", "time": later}]


def _some_args(chooser: Chooser, name: str, nodes: Sequence[SomeNode]) -> JsonObject:
    pod = some_asking_pod(chooser, name, nodes)
    if happens(chooser, 7):
        return {"Pod": pod, "Nodes": {"items": [node.raw for node in nodes]}, "NodeNames": None}
    names = [node.name for node in nodes]
    if happens(chooser, 40):
        names.reverse()
    if happens(chooser, 10):
        names.append("unknown")
    if len(names) > 1 and happens(chooser, 10):
        names.pop()
    return {"Pod": pod, "Nodes": None, "NodeNames": names}
