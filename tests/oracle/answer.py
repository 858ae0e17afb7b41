"""What Filter answers: decision, reply, events and annotations (scheduler 4.2, 4.7, wire protocol 3 and 5)."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuloom.wire.objects import Pod
from oracle.records import AllocatedDevice, MigAllocation
from oracle.settings import Settings

NORMAL, WARNING = "Normal", "Warning"
FAILED, SUCCEED = "FilteringFailed", "FilteringSucceed"
LABEL_LIMIT = 63
DECISION_KEYS = (
    "hami.io/vgpu-node",
    "hami.io/vgpu-time",
    "hami.io/vgpu-devices-to-allocate",
    "hami.io/vgpu-devices-allocated",
    "hami.io/vgpu-mig-allocations",
)
_COUNTED_REASON = re.compile(r"\d+/\d+ (\w+)")
_SINGLE_WORD = re.compile(r"[A-Z][A-Za-z]*")


@dataclass(frozen=True, slots=True)
class Event:
    """An event on the pod."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one Filter.

    ``scores`` are the fitting nodes, best last; ``failed`` the others with their reasons in detail. ``requested`` is
    false for a pod without device requests, whose candidates all pass.
    """

    node: str | None = None
    devices: tuple[tuple[AllocatedDevice, ...], ...] = ()
    mig_allocations: tuple[MigAllocation, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    unfit: frozenset[str] = frozenset()
    events: tuple[Event, ...] = ()
    error: str = ""
    requested: bool = True

    def failed_nodes(self, settings: Settings) -> dict[str, str]:
        """Return the refused nodes with the texts of the reply (4.9, D-06)."""
        short = settings.failed_node_reason == "short"
        return {
            node: "NodeUnfitPod" if short and node in self.unfit else reason for node, reason in self.failed.items()
        }


def success_event(total: int, scores: Mapping[str, float]) -> Event:
    """Tell which node was chosen among which (4.7)."""
    best = list(scores)[-1]
    fitting = ",".join(f"{node}:{score:.2f}" for node, score in scores.items())
    text = f"find fit node({best}), {total - len(scores)} nodes not fit, {len(scores)} nodes fit({fitting})"
    return Event(NORMAL, SUCCEED, text)


def refusal_events(total: int, failed: Mapping[str, str]) -> tuple[Event, ...]:
    """Tell why no node fits: one event per reason word, then the sum (4.7, B-40)."""
    nodes_by_word: dict[str, set[str]] = {}
    for node, text in failed.items():
        for word in reason_words(text):
            nodes_by_word.setdefault(word, set()).add(node)
    texts = [f"{len(nodes)} nodes {word}({','.join(sorted(nodes))})" for word, nodes in sorted(nodes_by_word.items())]
    texts.append(f"no available node, {total} nodes do not meet")
    return tuple(Event(WARNING, FAILED, text) for text in texts)


def reason_words(text: str) -> list[str]:
    """Return the words of a node's reason text; a text that is one CamelCase word is that word."""
    if _SINGLE_WORD.fullmatch(text):
        return [text]
    return [found[1] for part in text.split(", ") if (found := _COUNTED_REASON.fullmatch(part))]


def reply(answer: Answer, node_names: Sequence[str] | None, settings: Settings) -> dict[str, Any]:
    """Write the extender's reply to a request with node names."""
    names: list[str] | None = None
    if not answer.requested:
        names = None if node_names is None else list(node_names)
    elif answer.node is not None and settings.node_choice == "scheduler":
        names = [name for name in dict.fromkeys(node_names or ()) if name in answer.scores]
    elif answer.node is not None:
        names = [answer.node]
    refused = answer.requested and answer.node is None and not answer.error
    return _reply(NodeNames=names, FailedNodes=answer.failed_nodes(settings) if refused else None, Error=answer.error)


def grade(answer: Answer, name: str) -> int:
    """Return the score that kube-scheduler is told of a node: 10 for the chosen one, others share out 0 to 9."""
    if name == answer.node:
        return 10
    if name not in answer.scores:
        return 0
    worst, best = next(iter(answer.scores.values())), list(answer.scores.values())[-1]
    return 9 if worst == best else math.floor(9 * (answer.scores[name] - worst) / (best - worst))


def simulation_reply(
    answer: Answer, nodes: Mapping[str, Any], node_names: Sequence[str] | None, settings: Settings
) -> dict[str, Any]:
    """Write the extender's reply to a request with node objects, which are returned as received (4.8)."""
    if not answer.requested:
        return _reply(Nodes=nodes, NodeNames=None if node_names is None else list(node_names))
    if answer.error:
        return _reply(Error=answer.error)
    if answer.node is None:
        return _reply(FailedNodes=answer.failed_nodes(settings))
    returned = {answer.node} if settings.simulation_reply == "best" else set(answer.scores)
    items = [node for node in nodes.get("items") or () if node["metadata"]["name"] in returned]
    return _reply(Nodes={**nodes, "items": items}, FailedNodes=answer.failed_nodes(settings))


def decision_patch(answer: Answer, pod: Pod, time_s: int, settings: Settings) -> dict[str, Any] | None:
    """Write the decision's annotations and label as a merge patch (4.2 steps 9 and 11, B-20, B-21, B-23)."""
    if answer.node is None:
        return _cleaning_patch(answer, pod, settings)
    devices = "".join(
        "".join(f"{device.uuid},{device.type},{device.usedmem},{device.usedcores}:" for device in container) + ";"
        for container in answer.devices
    )
    values = (answer.node, str(time_s), devices, devices, _encode_mig(answer.mig_allocations))
    metadata: dict[str, Any] = {"annotations": dict(zip(DECISION_KEYS, values, strict=True))}
    if settings.pod_label and len(answer.node) <= LABEL_LIMIT:
        metadata["labels"] = {DECISION_KEYS[0]: answer.node}
    return {"metadata": metadata}


def _cleaning_patch(answer: Answer, pod: Pod, settings: Settings) -> dict[str, Any] | None:
    """Take back the annotations of an earlier success, where Filter writes them itself (B-20)."""
    stale = DECISION_KEYS[0] in pod.annotations and not pod.spec.node_name
    if settings.filter_write != "inline" or not answer.requested or not stale:
        return None
    return {"metadata": {"annotations": dict.fromkeys(DECISION_KEYS), "labels": {DECISION_KEYS[0]: None}}}


def _encode_mig(allocations: Sequence[MigAllocation]) -> str | None:
    if not allocations:
        return None
    return json.dumps(
        [
            {
                "containerIndex": item.container_index,
                "deviceIndex": item.device_index,
                "gpuUUID": item.gpu_uuid,
                "profile": item.profile,
                "placement": {"start": item.placement.start, "size": item.placement.size},
            }
            for item in allocations
        ],
        separators=(",", ":"),
    )


def _reply(**fields: object) -> dict[str, Any]:
    empty = {"Nodes": None, "NodeNames": None, "FailedNodes": None, "FailedAndUnresolvableNodes": None, "Error": ""}
    return empty | fields
