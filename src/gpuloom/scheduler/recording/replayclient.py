"""The client of a replay, without an API server: writes succeed and are kept, reads return what lines have shown."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from gpuloom.kube import PODS, ApiError, EventRecorder, KubeClient, Message, NotFoundError, Resource, UnreachableError
from gpuloom.kube.errors import Status, error_of_status
from gpuloom.kube.recorder import EventKind, Subject
from gpuloom.kube.resources import T
from gpuloom.kube.transport import go_on
from gpuloom.wire.depth import BAD_JSON, decode

_Key = tuple[str, str, str]
"""Kind, namespace, name."""


@dataclass(slots=True)
class Effects:
    """What was written, and which events were recorded, since the last answer, in order."""

    patches: list[dict[str, Any]] = field(default_factory=list)
    binding: dict[str, Any] | None = None
    events: list[dict[str, str]] = field(default_factory=list)

    def note_patch(self, kind: str, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        """Take that an object is patched."""
        self.patches.append({"kind": kind, "namespace": namespace, "name": name, "patch": msgspec.to_builtins(body)})

    def note_binding(self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> None:
        """Take that a pod is bound."""
        pod = {"namespace": namespace, "name": name, "uid": uid}
        self.binding = {**pod, "node": node, "annotations": dict(annotations)}

    def note_event(self, kind: str, reason: str, message: str) -> None:
        """Take that an event is recorded."""
        self.events.append({"type": kind, "reason": reason, "message": message})


class ReplayClient(KubeClient):
    """A client without a server. What a call writes, only that call can read: later lines say what came of it.

    Nothing takes time here, and nobody else writes: what calls say of that does not matter.
    """

    def __init__(self) -> None:
        # No transport: nothing here may reach a network.
        self.effects = Effects()
        self._objects: dict[_Key, msgspec.Raw] = {}
        self._written: dict[_Key, dict[str, Any]] = {}
        self._failures: dict[_Key, list[Status]] = {}

    def with_own_budget(self) -> Self:
        """Nothing is limited here."""
        return self

    def take_effects(self) -> Effects:
        """Return what a call wrote, and begin anew."""
        effects, self.effects = self.effects, Effects()
        self._written.clear()
        return effects

    def keep(self, kind: str, namespace: str, name: str, raw: msgspec.Raw) -> None:
        """Know an object."""
        self._objects[kind, namespace, name] = raw

    def drop(self, kind: str, namespace: str, name: str) -> None:
        """Know an object no more."""
        self._objects.pop((kind, namespace, name), None)

    def set_failures(self, failures: Iterable[tuple[str, str, str, Status]]) -> None:
        """Let the next writes on these objects (kind, namespace, name) fail, each once; what was set before is void."""
        self._failures.clear()
        for kind, namespace, name, status in failures:
            self._failures.setdefault((kind, namespace, name), []).append(status)

    async def get(self, resource: Resource[T], name: str, *, namespace: str = "", **_: Any) -> T:
        """Read an object as the last line showed it."""
        known = self._look_up((resource.kind, namespace, name), resource)
        if known is None:
            target = resource.describe(namespace=namespace, name=name)
            raise NotFoundError("get", target, 404, f'{resource.plural} "{name}" not found')
        return msgspec.convert(known, resource.type)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        recheck: Callable[[], None] = go_on,
        **_: Any,
    ) -> T:
        """Collect the patch and return what would come of it."""
        recheck()
        self.effects.note_patch(resource.kind, namespace, name, body)
        self._fail_if_set("patch", resource, namespace, name)
        key = (resource.kind, namespace, name)
        known = self._look_up(key, resource) or {"metadata": {"namespace": namespace, "name": name}}
        self._written[key] = _merge(known, body)
        return msgspec.convert(self._written[key], resource.type)

    async def bind(
        self,
        *,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str],
        recheck: Callable[[], None] = go_on,
        **_: Any,
    ) -> None:
        """Collect the binding."""
        recheck()
        self._fail_if_set("bind", PODS, namespace, name)
        self.effects.note_binding(namespace, name, uid, node, annotations)

    def _look_up(self, key: _Key, resource: Resource[Any]) -> dict[str, Any] | None:
        """Return what is read of an object: the rest may be JSON that no decoder takes, such as 1e999."""
        if key in self._written or key not in self._objects:
            return self._written.get(key)
        try:
            known: dict[str, Any] = msgspec.to_builtins(decode(self._objects[key], resource.type))
        except BAD_JSON:
            return None
        return known

    def _fail_if_set(self, verb: str, resource: Resource[T], namespace: str, name: str) -> None:
        if failures := self._failures.get((resource.kind, namespace, name)):
            raise _error(verb, resource.describe(namespace=namespace, name=name), failures.pop(0))


def _error(verb: str, target: str, status: Status) -> ApiError:
    if not status.code:
        return UnreachableError(verb, target, status.message or "no answer")
    return error_of_status(verb, target, status, status=status.code)


class ReplayRecorder(EventRecorder):
    """Collects events instead of sending them."""

    def __init__(self, client: ReplayClient) -> None:
        super().__init__(client, "")
        self._replay = client

    def record(
        self,
        subject: Subject,  # noqa: ARG002 - the recorder's signature
        kind: EventKind,
        reason: str,
        message: Message,
    ) -> None:
        """Note an event, in full."""
        self._replay.effects.note_event(kind, reason, message if isinstance(message, str) else message())


def _merge(known: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch (RFC 7386)."""
    merged: dict[str, Any] = dict(known) if isinstance(known, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value) if isinstance(value, Mapping) else value
    return merged
