"""Generated recordings with cards of one family, or of several: what happens in them the oracle plays along."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from oracle.choosers import Chooser, SeededChooser, happens
from oracle.vendors.catalogue import DEFAULT_CONFIG, Families
from oracle.vendors.family import Family
from oracle.vendors.records import JsonObject
from oracle.vendors.replay import VendorReplay, annotations_written
from oracle.vendors.somenodes import changed_node, some_node
from oracle.vendors.somepods import CARD_POLICIES, NONSENSE, some_pod

ASCEND910 = ("Ascend910A", "Ascend910B2", "Ascend910B3", "Ascend910B4", "Ascend910B4-1")
GROUPS: Mapping[str, Sequence[str]] = {
    "AMD": ("AMD",),
    "AWSNeuron": ("AWSNeuron",),
    "Ascend910": ASCEND910,
    "Ascend910C": ("Ascend910C",),
    "Ascend310P": ("Ascend310P",),
    "Biren": ("Biren",),
    "DCU": ("DCU",),
    "Enflame": ("Enflame",),
    "GCU": ("GCU",),
    "Iluvatar": ("Iluvatar",),
    "Iluvatar-chips": ("BI-V100", "BI-V150", "MR-V100", "MR-V50"),
    "MLU": ("MLU",),
    "Metax-GPU": ("Metax-GPU",),
    "Metax-SGPU": ("Metax-SGPU",),
    "Mthreads": ("Mthreads",),
    "Vastai": ("Vastai",),
    "XPU": ("XPU",),
    "kunlun": ("kunlun",),
}
"""The families of a case's main interest, by name of the case's kind."""
SEVERAL = "several"
KINDS = (*GROUPS, SEVERAL)
SWITCHES: Mapping[str, Sequence[Any]] = {
    "node-scheduler-policy": ("spread", "binpack", "first-fit"),
    "gpu-scheduler-policy": CARD_POLICIES,
    "device-sort": ("score-first", "numa-first"),
    "device-score-slots": ("one", "nums"),
    "topology-score-sign": ("upstream", "fixed"),
    "metax-same-card": (False, True),
    "ascend-round-unseen": (False, True),
    "neuron-core-ids": (False, True),
    "mlu-default-cores": (True, False),
    "quota-in-fit": ("hami", "all"),
    "failed-node-reason": ("short", "detail"),
    "no-request-event": (False, True),
    "privileged-gpu": ("deny", "skip"),
    "admission-quota": (False, True),
    "strict-quantities": (False, True),
}
ILUVATAR = {
    "resourceCountName": "iluvatar.ai/vgpu",
    "resourceMemoryName": "iluvatar.ai/vcuda-memory",
    "resourceCoreName": "iluvatar.ai/vcuda-core",
}
"""The section of the backend that served all chips; the configuration that is shipped has none."""


class Script:
    """A recording in the making; the oracle plays along, so that pods can be bound where they were placed."""

    def __init__(self, chooser: Chooser, kind: str) -> None:
        self.chooser, self.lines = chooser, list[JsonObject]()
        self.oracle = VendorReplay()
        self._settings = _some_settings(
            chooser, legacy=kind == "Iluvatar" or (kind == SEVERAL and happens(chooser, 10))
        )
        self.tell(self._settings)
        self.families: Families = self.oracle.families
        self.asked = _some_families(chooser, kind, self.families)
        self.nodes = [self._some_node(f"n{at}") for at in range(chooser.choose((1, 2, 3, 1, 2, 3, 2, 1, 2, 8)))]
        self.bound: dict[str, JsonObject] = {}
        self._start()
        for node in self.nodes:
            if happens(chooser, 25):
                self._add_running(node["metadata"]["name"])

    def tell(self, line: JsonObject) -> JsonObject | None:
        """Add a line."""
        self.lines.append(json.loads(json.dumps(line)))
        return self.oracle.take(json.loads(json.dumps(line)))

    def act(self, at: int) -> None:
        """Let something happen: mostly a new pod."""
        if happens(self.chooser, 12):
            self._set_quota(f"q{at}")
        elif happens(self.chooser, 8):
            self._change_node()
        elif self.bound and happens(self.chooser, 8):
            self._end_pod()
        elif self.bound and happens(self.chooser, 8):
            self._restart()
        self._ask(at)

    def _some_node(self, name: str) -> JsonObject:
        own = [family for family in self.asked if happens(self.chooser, 92)]
        others = [self.chooser.choose(list(self.families.values()))] if happens(self.chooser, 25) else []
        own += [family for family in others if family not in own]
        return some_node(self.chooser, name, own)

    def _start(self) -> None:
        for node in self.nodes:
            self.tell({"type": "ADDED", "object": node})
        self.tell({"type": "RECONCILE", "id": "first pass"})

    def _add_running(self, node: str) -> None:
        """Add a pod that somebody placed before, with a part of some cards of a family."""
        family = self.chooser.choose(self.asked)
        cards = [card for card in self.oracle.loop.cards_of(node) if card.vendor == family.word]
        if not cards:
            return
        first, number = self.chooser.number(0, len(cards) - 1), self.chooser.choose((2, 1, 3, 5))
        memory, cores = self.chooser.choose((4, 2, 1, 8)), self.chooser.choose((4, 2, 1, 1))
        held = cards[first : first + number]
        word = {card.id: card.type if family.word == "AMD" else family.word for card in held}
        text = "".join(
            f"{card.id},{word[card.id]},{card.devmem // memory},{card.devcore // cores or 1}:" for card in held
        )
        annotations = {"hami.io/vgpu-node": node, family.allocated: f"{text};"}
        uid = f"u-r-{node}"
        metadata = {"name": f"r-{node}", "namespace": "default", "uid": uid, "annotations": annotations}
        pod = {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node, "containers": [{"name": "c"}]}}
        self.bound[uid] = pod
        self.tell({"type": "ADDED", "object": pod})

    def _ask(self, at: int) -> None:
        ids = [card.id for node in self.nodes for card in self.oracle.loop.cards_of(node["metadata"]["name"])] or ["x"]
        pod = some_pod(self.chooser, f"p{at}", self.asked, ids)
        asked = {"uid": f"r{at}", "namespace": pod["metadata"]["namespace"], "object": pod}
        reviewed = self.tell({"type": "REVIEW", "id": f"review {at}", "review": _review(asked)})
        if reviewed and reviewed["result_pod"] is not None and happens(self.chooser, 85):
            pod = reviewed["result_pod"]
        if set(pod["metadata"]["annotations"].values()) & NONSENSE:
            return
        names = [node["metadata"]["name"] for node in self.nodes]
        args = {"Pod": pod, "Nodes": None, "NodeNames": names[::-1] if happens(self.chooser, 30) else names}
        if happens(self.chooser, 7):
            args = {"Pod": pod, "Nodes": {"items": self.nodes}, "NodeNames": None}
        answer = self.tell({"type": "FILTER", "id": f"filter {at}", "args": args})
        if answer and (written := annotations_written(answer)) and happens(self.chooser, 60):
            self._bind(pod, written)

    def _bind(self, pod: JsonObject, written: Mapping[str, str]) -> None:
        metadata = {**pod["metadata"], "annotations": {**pod["metadata"]["annotations"], **written}}
        bound = {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": written["hami.io/vgpu-node"]}}
        self.bound[metadata["uid"]] = bound
        self.tell({"type": "ADDED", "object": bound})

    def _end_pod(self) -> None:
        pod = self.bound.pop(self.chooser.choose(sorted(self.bound)))
        if happens(self.chooser, 50):
            self.tell({"type": "DELETED", "object": pod})
        else:
            self.tell({"type": "MODIFIED", "object": {**pod, "status": {"phase": "Succeeded"}}})

    def _restart(self) -> None:
        """Forget everything that the API server does not know."""
        self.tell(self._settings)
        for pod in self.bound.values():
            self.tell({"type": "ADDED", "object": pod})
        self._start()

    def _change_node(self) -> None:
        at = self.chooser.number(0, len(self.nodes) - 1)
        family = self.chooser.choose(self.asked)
        if family.word == "NVIDIA":
            return  # how its health follows from what the kubelet says is the common flow's own oracle's
        self.nodes[at] = changed_node(self.chooser, self.nodes[at], family)
        self.tell({"type": "MODIFIED", "object": self.nodes[at]})
        later = self.chooser.choose(("2024-11-20T03:28:30Z", "2024-11-20T03:29:15Z"))
        self.tell({"type": "RECONCILE", "id": f"pass {len(self.lines)}", "time": later})

    def _set_quota(self, name: str) -> None:
        family, hard = self.chooser.choose(self.asked), dict[str, str]()
        if family.memory and happens(self.chooser, 75):
            hard[f"limits.{family.memory}"] = str(self.chooser.choose((0, 16, 64)) * 1024 // family.factor)
        if family.cores and (not hard or happens(self.chooser, 50)):
            hard[f"limits.{family.cores}"] = str(self.chooser.choose((2, 8, 50, 100, 300)))
        metadata = {"name": name, "namespace": "default"}
        self.tell({"type": "ADDED", "object": {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}})


def case_from_seed(kind: str, seed: int) -> tuple[JsonObject, ...]:
    """Return the recording of a seed: always the same."""
    chooser = SeededChooser(seed)
    script = Script(chooser, kind)
    for at in range(chooser.number(2, 7)):
        script.act(at)
    return tuple(script.lines)


def _some_settings(chooser: Chooser, *, legacy: bool) -> JsonObject:
    flags: JsonObject = {"scheduler-name": "hami-scheduler", "enable-ascend": True, "enable-iluvatar": True}
    for name, values in SWITCHES.items():
        if happens(chooser, 15):
            flags[name] = chooser.choose(values)
    settings = {"type": "SETTINGS", "flags": flags, "time": "2024-11-20T03:28:15Z"}
    changes: JsonObject = {"iluvatar": ILUVATAR} if legacy else {}
    if happens(chooser, 15):
        changes["metax"] = DEFAULT_CONFIG["metax"] | {"sgpuTopologyAware": True}
    if happens(chooser, 15):
        more = {"overwriteEnv": True, "runtimeClassName": "ascend"}
        chips = [chip | more for chip in DEFAULT_CONFIG["vnpus"]["configs"]]
        changes["vnpus"] = {"hamiVnpuCore": happens(chooser, 70), "configs": chips}
    return settings | ({"deviceConfig": {**DEFAULT_CONFIG, **changes}} if changes else {})


def _some_families(chooser: Chooser, kind: str, families: Families) -> list[Family]:
    if kind != SEVERAL:
        words = GROUPS[kind]
        number = chooser.choose((1, 1, 2)) if len(words) > 1 else 1
    else:
        words, number = tuple(families), chooser.choose((2, 2, 3))
    chosen = {chooser.choose(words) for _ in range(number)}
    return [families[word] for word in sorted(chosen)]


def _review(request: JsonObject) -> JsonObject:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
