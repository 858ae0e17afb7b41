"""Bodies of the scheduler extender's preempt call: which pods would have to leave which nodes (wire protocol 5).

Go structures without JSON tags, as those of :mod:`gpuloom.wire.extender`.
"""

from collections.abc import Mapping

import msgspec

from gpuloom.wire.gojson import decode_fields, decode_json, find_fields
from gpuloom.wire.objects import Pod


class NodeVictims(msgspec.Struct, frozen=True, gc=False):
    """Who would leave a node: UIDs, most important first, and how many of them a PodDisruptionBudget protects."""

    uids: tuple[str, ...] = ()
    violations: int = 0


class PreemptionArgs(msgspec.Struct, frozen=True, gc=False):
    """What kube-scheduler asks: on which of these nodes would the pod fit once these have left."""

    pod: Pod | None = None
    victims: Mapping[str, NodeVictims] = {}


class _MetaPod(msgspec.Struct, frozen=True):
    uid: str = ""


class _Victims(msgspec.Struct, frozen=True):
    pods: tuple[msgspec.Raw, ...] = ()
    numpdbviolations: int = 0


def decode_preemption_args(body: bytes) -> PreemptionArgs:
    """Read the body of a preempt call; victims come as UIDs, or as whole pods without ``nodeCacheCapable``.

    Raises WireError with the decoder's text.
    """
    found = find_fields(body, ("pod", "nodenametovictims", "nodenametometavictims"))
    whole, meta = found.get("nodenametovictims"), found.get("nodenametometavictims")
    victims = {} if whole is None else _read(whole, are_whole=True)
    if meta is not None:
        victims = _read(meta, are_whole=False)
    pod = found.get("pod")
    return PreemptionArgs(None if pod is None else decode_json(pod, Pod), victims)


def encode_preemption_result(victims: Mapping[str, NodeVictims]) -> bytes:
    """Write the reply: the nodes on which the pod would fit, and who leaves them; victims are always told by UID."""
    nodes = {
        node: {"Pods": [{"UID": uid} for uid in one.uids], "NumPDBViolations": one.violations}
        for node, one in victims.items()
    }
    return msgspec.json.encode({"NodeNameToMetaVictims": nodes})


def _read(victims: msgspec.Raw, *, are_whole: bool) -> dict[str, NodeVictims]:
    by_node = decode_json(victims, dict[str, msgspec.Raw])
    return {node: _read_one(decode_fields(one, _Victims), are_whole=are_whole) for node, one in by_node.items()}


def _read_one(one: _Victims, *, are_whole: bool) -> NodeVictims:
    if are_whole:
        return NodeVictims(tuple(decode_json(pod, Pod).metadata.uid for pod in one.pods), one.numpdbviolations)
    return NodeVictims(tuple(decode_fields(pod, _MetaPod).uid for pod in one.pods), one.numpdbviolations)
