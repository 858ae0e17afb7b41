"""Collects what one call of a recorded process writes and which events it records.

A context variable tells writes of different calls apart: every Bind runs in a task that copies its caller's context.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from gpuloom.kube import PODS, ApiError, EventRecorder, KubeClient, Message, Resource
from gpuloom.kube.recorder import EventKind, Subject
from gpuloom.kube.resources import T
from gpuloom.kube.transport import go_on
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.recording.header import write_time
from gpuloom.scheduler.recording.replayclient import Effects
from gpuloom.scheduler.recording.writer import LineSlot, RecordingWriter


@dataclass(slots=True)
class RecordedCall:
    """One call. Its place in the recording is where it first wrote, before the lines that show the effect."""

    writer: RecordingWriter
    clocks: Clocks
    effects: Effects = field(default_factory=Effects)
    failures: list[dict[str, Any]] = field(default_factory=list)
    slot: LineSlot | None = None
    time: str = ""
    at_s: float = 0.0
    is_abandoned: bool = False

    def begin(self) -> None:
        """Take a place in the recording, unless the call has one."""
        if not self.time and not self.is_abandoned:
            self.time, self.at_s = write_time(self.clocks.now()), self.clocks.monotonic()
            self.slot = self.writer.open_slot()

    def end(self, *lines: dict[str, Any]) -> None:
        """Put the call's lines into its place."""
        if self.slot is not None:
            self.writer.fill(self.slot, *lines)
            self.slot = None
        elif self.time and not self.is_abandoned:
            # The missing place has counted as one.
            self.writer.lose(max(len(lines) - 1, 0))

    def abandon(self) -> None:
        """Leave the call out: its answer will never be known, and its open place would delay all later lines."""
        self.is_abandoned = True
        self.end()


current_call: ContextVar[RecordedCall | None] = ContextVar("current_call", default=None)


class RecordingClient(KubeClient):
    """A client that tells the current call what it writes."""

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        recheck: Callable[[], None] = go_on,
        **options: Any,
    ) -> T:
        """Merge ``body`` into an object."""
        call = current_call.get()

        def note() -> None:
            recheck()
            if call is not None:
                call.begin()
                call.effects.note_patch(resource.kind, namespace, name, body)

        try:
            return await super().patch(resource, name, body, namespace=namespace, recheck=note, **options)
        except ApiError as error:
            _note_failure(call, resource.kind, namespace, name, error)
            raise

    async def bind(
        self,
        *,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str],
        recheck: Callable[[], None] = go_on,
        **options: Any,
    ) -> None:
        """Bind a pod."""
        call = current_call.get()

        def note() -> None:
            recheck()
            if call is not None:
                call.begin()

        try:
            await super().bind(
                namespace=namespace,
                name=name,
                uid=uid,
                node=node,
                annotations=annotations,
                recheck=note,
                **options,
            )
        except ApiError as error:
            _note_failure(call, PODS.kind, namespace, name, error)
            raise
        if call is not None:
            call.effects.note_binding(namespace, name, uid, node, annotations)


def _note_failure(call: RecordedCall | None, kind: str, namespace: str, name: str, error: ApiError) -> None:
    if call is not None:
        target = {"kind": kind, "namespace": namespace, "name": name}
        call.failures.append({"object": target, "status": {"code": error.status, "message": error.message}})


class RecordingEventRecorder(EventRecorder):
    """An event recorder that tells the current call what was said."""

    def record(self, subject: Subject, kind: EventKind, reason: str, message: Message) -> None:
        """Note an event."""
        text = message if isinstance(message, str) else message()
        if call := current_call.get():
            call.effects.note_event(kind, reason, text)
        super().record(subject, kind, reason, text)
