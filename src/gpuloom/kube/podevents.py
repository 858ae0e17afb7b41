"""Events on pods."""

from gpuloom.kube.recorder import EventKind, EventRecorder, Message, Subject
from gpuloom.wire.objects import Pod


def record(recorder: EventRecorder, pod: Pod, kind: EventKind, reason: str, message: Message) -> None:
    """Record an event on a pod; never blocks."""
    recorder.record(Subject("Pod", pod.namespace, pod.name, pod.metadata.uid), kind, reason, message)
