"""READY, STATUS and RESTARTS of a pod: one word for all that may be the matter, as kube-apiserver chooses it."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from gpuloom.local.apiserver.ages import show_age
from gpuloom.local.apiserver.objects import Json, look_up
from gpuloom.wire.objects import GATED


@dataclass(frozen=True, slots=True)
class ShownPod:
    """Three cells of a row."""

    ready: str
    status: str
    restarts: str


def show_pod(value: Json, now: dt.datetime) -> ShownPod:
    """Return what kubectl prints about a pod."""
    statuses: Sequence[Json] = look_up(value, "status.containerStatuses") or ()
    restarts = sum(int(one.get("restartCount") or 0) for one in statuses)
    shown_restarts = str(restarts)
    last = max((text for one in statuses if (text := look_up(one, "lastState.terminated.finishedAt"))), default="")
    if restarts and last:
        shown_restarts = f"{restarts} ({show_age(last, now)} ago)"
    ready = sum(bool(one.get("ready")) and look_up(one, "state.running") is not None for one in statuses)
    total = len(look_up(value, "spec.containers") or ())
    return ShownPod(f"{ready}/{total}", _status(value, statuses), shown_restarts)


def _status(value: Json, statuses: Sequence[Json]) -> str:
    reason = look_up(value, "status.reason") or look_up(value, "status.phase") or ""
    for condition in look_up(value, "status.conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == GATED:
            reason = GATED
    reason = _init_reason(value) or _container_reason(statuses) or reason
    if look_up(value, "metadata.deletionTimestamp"):
        ended = look_up(value, "status.phase") in ("Succeeded", "Failed")
        return reason if ended else "Terminating"
    return str(reason)


def _init_reason(value: Json) -> str:
    statuses: Sequence[Json] = look_up(value, "status.initContainerStatuses") or ()
    total = len(look_up(value, "spec.initContainers") or ())
    for index, one in enumerate(statuses):
        if look_up(one, "state.terminated.exitCode") == 0 or one.get("started"):
            continue
        if look_up(one, "state.terminated") is not None:
            return f"Init:{_ended(one)}"
        waiting = look_up(one, "state.waiting.reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{total}"
    return ""


def _container_reason(statuses: Sequence[Json]) -> str:
    """Return the reason of the first container that has one; a running one hides another's completion."""
    reason = ""
    for one in reversed(statuses):
        if look_up(one, "state.waiting.reason"):
            reason = look_up(one, "state.waiting.reason")
        elif look_up(one, "state.terminated") is not None:
            reason = _ended(one)
    running = any(one.get("ready") and look_up(one, "state.running") is not None for one in statuses)
    return "Running" if reason == "Completed" and running else reason


def _ended(status: Json) -> str:
    terminated = look_up(status, "state.terminated") or {}
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
