"""Events on pods."""

from typing import Literal

from gpuloom.kube.recorder import EventRecorder, Message
from gpuloom.wire.objects import Pod


def record(
    recorder: EventRecorder, pod: Pod, kind: Literal["Normal", "Warning"], reason: str, message: Message
) -> None:
    """Record an event on a pod; never blocks."""
    recorder.record(
        kind="Pod",
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.metadata.uid,
        type=kind,
        reason=reason,
        message=message,
    )
