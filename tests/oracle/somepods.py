"""Generated pods: such as run, and such as want to (scheduler 3, 4.5, 6.2, wire protocol 3)."""

import json
from collections.abc import Sequence
from typing import Any, Final

from oracle.choosers import Chooser, happens
from oracle.somenodes import JsonObject, SomeCard, SomeNode

NAMESPACES: Final = ("default", "team")
CARD_POLICIES: Final = (
    "spread",
    "binpack",
    "topology-aware",
    "mutex",
    "numa",
    "numa,binpack",
    "binpack,numa",
    "mutex,spread",
    "topology-aware,binpack",
    "mutex, topology-aware",
    " spread , numa ",
    "first-fit",
    "numa,first-fit",
    "",
    "foo",
    "foo,",
)
NODE_POLICIES: Final = ("binpack", "spread", "first-fit", "", "Spread")
WEIGHTS: Final = (
    "slot=1,core=1,memory=3",
    " memory=2 , core = 0, slot=1",
    "slot=1,core=3,memory=1",
    "slot=10,core=0,memory=1",
    "slot=0,core=0,memory=0",
    "slot=1,core=1",
    "slot=1,slot=1,core=1",
    "slot=-1,core=1,memory=1",
    "slot=a,core=1,memory=1",
    "slot,core=1,memory=1",
    "size=1,core=1,memory=1",
)


def some_running_pod(chooser: Chooser, name: str, nodes: Sequence[SomeNode]) -> JsonObject:
    """Generate a pod that holds shares of a node's cards, and with them the amounts that make decisions close."""
    node = chooser.choose(nodes)
    spec = _some_containers(chooser)
    groups = [*spec.get("initContainers", ()), *spec["containers"]]
    if happens(chooser, 60):
        groups[-1]["resources"] = {"limits": {"nvidia.com/gpu": chooser.choose(("1", 2, "0"))}}
    entries: list[list[tuple[SomeCard, JsonObject | None, str]]] = [
        [_some_share(chooser, chooser.choose(node.cards)) for _ in range(chooser.choose((1, 1, 0, 2)))]
        if node.cards
        else []
        for _ in groups
    ]
    text = "".join("".join(share for _, _, share in entry) + ";" for entry in entries)
    annotations = {"hami.io/vgpu-node": node.name, "hami.io/vgpu-devices-allocated": _some_damage(chooser, text)}
    allocations = [
        {"containerIndex": at, "deviceIndex": position, "gpuUUID": card.id, **instance}
        for at, entry in enumerate(entries)
        for position, (card, instance, _) in enumerate(entry)
        if instance is not None and not happens(chooser, 5)
    ]
    if allocations:
        annotations["hami.io/vgpu-mig-allocations"] = json.dumps(allocations)
    spec["nodeName"] = chooser.choose((node.name, node.name, node.name, node.name, "", "elsewhere"))
    pod = _pod(chooser, name, annotations, spec)
    pod["status"] = {"phase": chooser.choose(("Running", "Running", "Running", "Pending", "Succeeded"))}
    if happens(chooser, 10):
        pod["metadata"]["deletionTimestamp"] = "2024-11-20T03:28:15Z"
    return pod


def end_init_containers(pod: JsonObject) -> JsonObject:
    """Return the pod as it is when its ordinary init containers have ended well."""
    ended = {"terminated": {"exitCode": 0}}
    statuses = [
        {"name": container["name"], "state": {} if "restartPolicy" in container else ended}
        for container in pod["spec"].get("initContainers", ())
    ]
    return {**pod, "status": {**pod["status"], "initContainerStatuses": statuses}}


def some_asking_pod(chooser: Chooser, name: str, nodes: Sequence[SomeNode]) -> JsonObject:
    """Generate a pod that asks for cards, most of the time for amounts that nearly fit."""
    cards = [card for node in nodes for card in node.cards]
    spec = _some_containers(chooser)
    groups = [*spec.get("initContainers", ()), *spec["containers"]]
    for at, container in enumerate(groups):
        if at == len(groups) - 1 or happens(chooser, 60):
            container["resources"] = _some_resources(chooser, cards)
    return _pod(chooser, name, _some_wishes(chooser, cards), spec)


def some_review(chooser: Chooser, nodes: Sequence[SomeNode]) -> JsonObject:
    """Generate a pod that is about to be created, as the API server shows it to the webhook."""
    pod = some_asking_pod(chooser, "new", nodes)
    spec = pod["spec"]
    for container in [*spec.get("initContainers", ()), *spec["containers"]]:
        if happens(chooser, 15):
            container["securityContext"] = {"privileged": True}
        if happens(chooser, 15):
            container["resources"].setdefault("limits", {})["nvidia.com/priority"] = chooser.choose(("1", "0", "500m"))
        if happens(chooser, 30):
            container["resources"].get("limits", {}).pop("nvidia.com/gpu", None)
    options: tuple[tuple[str, Sequence[str]], ...] = (
        ("schedulerName", ("default-scheduler", "hami-scheduler", "other")),
        ("nodeName", ("n0",)),
        ("runtimeClassName", ("runc",)),
    )
    spec |= {key: chooser.choose(values) for key, values in options if happens(chooser, 15)}
    if happens(chooser, 15):
        pod["metadata"]["annotations"]["hami.io/vgpu-node"] = "n0"
        pod["metadata"]["labels"] = {"hami.io/vgpu-node": "n0", "app": "a"}
    namespace = pod["metadata"]["namespace"]
    if happens(chooser, 20):
        del pod["metadata"]["namespace"]
    request = {"uid": "r", "namespace": namespace, "operation": "CREATE", "object": pod}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _pod(chooser: Chooser, name: str, annotations: dict[str, str], spec: JsonObject) -> JsonObject:
    metadata = {"name": name, "namespace": chooser.choose(NAMESPACES), "uid": f"uid-{name}", "annotations": annotations}
    return {"kind": "Pod", "metadata": metadata, "spec": spec}


def _some_containers(chooser: Chooser) -> JsonObject:
    init: list[JsonObject] = []
    for kind in chooser.choose(((), (), (), ("init",), ("sidecar",), ("init", "sidecar"), ("sidecar", "init", "init"))):
        container = {"name": f"i{len(init)}", "resources": {}}
        init.append(container | ({"restartPolicy": "Always"} if kind == "sidecar" else {}))
    regular = [{"name": f"c{at}", "resources": {}} for at in range(chooser.choose((1, 1, 2, 3)))]
    return {"containers": regular} | ({"initContainers": init} if init else {})


def _some_share(chooser: Chooser, card: SomeCard) -> tuple[SomeCard, JsonObject | None, str]:
    """Return the card, the instance of it by published profiles, and the entry of the device list."""
    if card.mode == "mig" and card.profiles:
        profile = chooser.choose(card.profiles)
        placement = chooser.choose(profile["placements"])
        share = f"{card.id},NVIDIA,{profile['memoryMB']},{profile['core']}:"
        return card, {"profile": profile["name"], "placement": placement}, share
    memory_mib = _some_memory(chooser, [card])
    if card.mode == "mig" and not happens(chooser, 5):
        geometry = chooser.number(0, 3 if happens(chooser, 30) else 1)
        return card, None, f"{card.id}[{geometry}-{chooser.number(0, 3)}],NVIDIA,{memory_mib},14:"
    cores = chooser.choose((0, 25, 50, 100, 75, 100, 100))
    uuid = "GPU-gone" if happens(chooser, 3) else card.id
    return card, None, f"{uuid},NVIDIA,{memory_mib},{cores}:"


def _some_damage(chooser: Chooser, text: str) -> str:
    """Return the device list, rarely as old or broken writers left it."""
    if not happens(chooser, 6):
        return text
    return chooser.choose((f"{text};", f",,0,0:;{text}", "GPU-a,NVIDIA,1:;", "GPU-a,NVIDIA,x,1:;", ""))


def _some_memory(chooser: Chooser, cards: Sequence[SomeCard]) -> int:
    """Return an amount that goes into some card's memory without rest, or nearly so."""
    total = chooser.choose(cards).memory_mib if cards else 1000
    amount = total * chooser.choose((2, 1, 4, 8, 6, 1)) // 8
    return amount + chooser.choose((0, 0, 0, 0, 1, -1)) if amount > 0 else 0


def _some_resources(chooser: Chooser, cards: Sequence[SomeCard]) -> JsonObject:
    amounts: JsonObject = {"nvidia.com/gpu": chooser.choose((1, "1", "2", 1, "1", 3, "4"))}
    if happens(chooser, 4):
        amounts["nvidia.com/gpu"] = chooser.choose(("0", "1.5", "-1", "4294967297"))
    memory = chooser.choose(("amount", "none", "instance", "percentage", "both", "amount"))
    if memory in {"amount", "both"}:
        amounts["nvidia.com/gpumem"] = str(_some_memory(chooser, cards))
    if memory == "instance":
        amounts["nvidia.com/gpumem"] = chooser.choose((5000, 5120, 10000, 10240, 3072, 20480))
    if memory in {"percentage", "both"}:
        amounts["nvidia.com/gpumem-percentage"] = chooser.choose((50, "100", 25, "33", 75, 0, "150", "-1"))
    if happens(chooser, 3):
        amounts["nvidia.com/gpumem"] = chooser.choose(("16Gi", "0.5", "-1", "2147483648"))
    if happens(chooser, 60):
        amounts["nvidia.com/gpucores"] = chooser.choose((50, 25, "100", "75", "0", 120, "1k"))
    if happens(chooser, 1):
        amounts["nvidia.com/gpucores"] = "-5"
    return {"limits": amounts} if happens(chooser, 90) else {"requests": amounts}


def _some_wishes(chooser: Chooser, cards: Sequence[SomeCard]) -> dict[str, str]:
    """Return the annotations by which a user narrows the choice."""
    ids = [card.id for card in cards] or ["GPU-none"]
    options: tuple[tuple[str, int, Sequence[Any]], ...] = (
        ("hami.io/gpu-scheduler-policy", 50, CARD_POLICIES),
        ("hami.io/node-scheduler-policy", 40, NODE_POLICIES),
        ("nvidia.com/numa-bind", 25, ("true", "1", "false", "yes")),
        ("nvidia.com/vgpu-mode", 10, ("hami-core", "mig", "hami-core,mig", "mps", "")),
        ("nvidia.com/use-gputype", 7, ("a100", "T4,A40", " A10 ", "H100", "", " , ")),
        ("nvidia.com/nouse-gputype", 7, ("T4", "a100", "A10G", "", "A40,")),
        ("hami.io/device-scoring-weights", 10, WEIGHTS),
    )
    wishes = {key: chooser.choose(values) for key, percent, values in options if happens(chooser, percent)}
    for key in ("nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"):
        if happens(chooser, 10):
            wishes[key] = ", ".join(chooser.choose(ids) for _ in range(chooser.number(1, 3)))
    return wishes
