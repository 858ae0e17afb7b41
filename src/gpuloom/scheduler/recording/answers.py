"""Answer lines (recording 3), as values that become JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gpuloom.scheduler.recording.replayclient import Effects
from gpuloom.wire.admission import Verdict, encode_review
from gpuloom.wire.extender import BindResult, FilterResult, HostPriority

Answer = dict[str, Any]


def reconciled(effects: Effects) -> Answer:
    """Say which nodes are patched."""
    return {"type": "RECONCILED", "patches": sorted(effects.patches, key=lambda patch: str(patch["name"]))}


def reviewed(api_version: str, uid: str, verdict: Verdict) -> Answer:
    """Say what the webhook replied, with the patch as a list."""
    response = msgspec.json.decode(encode_review(api_version, uid, verdict))
    if verdict.patch:
        response["response"]["patch"] = msgspec.to_builtins(verdict.patch)
    return {"type": "REVIEWED", "response": response}


def filtered(result: FilterResult, patch: Mapping[str, Any] | None, effects: Effects) -> Answer:
    """Say what kube-scheduler was told and what the decision writes."""
    return {
        "type": "FILTERED",
        "result": _read(msgspec.json.encode(result)),
        "patch": patch,
        "events": effects.events,
    }


def prioritized(priorities: Sequence[HostPriority]) -> Answer:
    """Say which scores kube-scheduler was told."""
    return {"type": "PRIORITIZED", "result": msgspec.to_builtins(priorities)}


def bound(result: BindResult, effects: Effects) -> Answer:
    """Say what came of a Bind and what it wrote."""
    return {
        "type": "BOUND",
        "result": msgspec.to_builtins(result),
        "patches": effects.patches,
        "binding": effects.binding,
        "events": effects.events,
    }


def _read(text: bytes) -> Any:
    """Return what a reply says; as text where it repeats what no decoder takes of the caller, such as 1e999."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.ValidationError, UnicodeDecodeError):
        return text.decode(errors="replace")
