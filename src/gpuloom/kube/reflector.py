"""Follow everything that happens to the objects of one kind: list, then watch, for ever.

The model is kube-rs's: a consumer collects initial objects and *replaces* its set when the list completes, so an object
that vanished while nobody watched needs no event of its own. The reflector keeps no objects. It never raises when a
server or the network fails: it reports, counts and goes on.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic

import msgspec
import structlog

from gpuloom.kube.backoff import Backoff
from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError, ExpiredError, Status, TooLongError, error_of_status
from gpuloom.kube.lists import ListOptions
from gpuloom.kube.resources import Resource, T
from gpuloom.kube.stream import WatchLine
from gpuloom.wire.depth import BAD_JSON, decode, decode_by
from gpuloom.wire.objects import KubeStruct, ObjectMeta

_GOOD_STREAM_S = 60.0
_USEFUL_STREAM_S = 1.0
_OBJECTS_PER_TURN = 50
_FEWER = 8
"""By so much the pages of a list become shorter where one is too long."""
_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class InitialListBegins:
    """A list begins, the first or a later one: start a new set beside the old one."""


class InitialObject(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One object of the list that began last."""

    object: T


@dataclass(frozen=True, slots=True)
class InitialListComplete:
    """The list is complete: the new set replaces the old one."""


class Applied(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object was added or changed."""

    object: T


class Deleted(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object was deleted; of an unreadable one only the metadata is filled in."""

    object: T


class Unreadable(msgspec.Struct, frozen=True, gc=False):
    """An object exists, in a list or changed, but cannot be read: what was known of it must not count as gone.

    metadata  as far as it can be read, at least a name
    raw       the whole object as JSON, for callers that read less of it
    why       what is wrong with it
    """

    metadata: ObjectMeta
    raw: msgspec.Raw
    why: str


ReflectorEvent = InitialListBegins | InitialObject[T] | InitialListComplete | Applied[T] | Deleted[T] | Unreadable


@dataclass(frozen=True, slots=True)
class ReflectorTiming:
    """Clock, time limits and randomness of a reflector; tests pass their own.

    ``silence_s``: a watch that delivers nothing for this long is dead (bookmarks come about once a minute).
    ``ceiling_s``: the longest pause after failures.
    """

    silence_s: float = 90.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    monotonic_s: Callable[[], float] = time.monotonic
    uniform: Callable[[float, float], float] = random.uniform
    ceiling_s: float = 30.0


class _Identity(KubeStruct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identified(KubeStruct, frozen=True):
    metadata: _Identity = _Identity()


class Reflector(Generic[T]):
    """Follows the objects of one kind; :meth:`events` is read by one consumer, and begins anew with each call.

    Public counters: ``changes`` (reported by watches), ``relists`` and ``reconnects`` (lists and watches after the
    first), ``failures`` (tries after which it waited), ``bad_objects`` (that cannot be read). ``last_event_s`` is the
    monotonic time of the last sign of life, ``None`` before any. ``synced`` turns true when the consumer has taken the
    first complete list, and stays so. Counters go on when events begin anew.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        page_size: int | None = None,
        timing: ReflectorTiming | None = None,
    ) -> None:
        self.changes = 0
        self.relists = 0
        self.reconnects = 0
        self.failures = 0
        self.bad_objects = 0
        self.last_event_s: float | None = None
        self.synced = False
        self._client = client
        self._resource = resource
        self._selection = ListOptions(namespace, label_selector, field_selector)
        self._page_size = page_size or resource.page_size
        self._timing = timing or ReflectorTiming()
        self._backoff = Backoff(ceiling_s=self._timing.ceiling_s, uniform=self._timing.uniform)
        self._decoder = msgspec.json.Decoder(resource.type)
        self._version = ""
        self._lists = 0
        self._watches = 0
        self._may_hurry = True

    async def events(self) -> AsyncGenerator[ReflectorEvent[T], None]:
        """Yield events for ever; close it with ``aclosing``, or cancel the task that reads it."""
        self._version, self.last_event_s, self.synced = "", None, False
        self._backoff.reset()
        self._may_hurry = True
        while True:
            try:
                if not self._version:
                    async with aclosing(self._list()) as listed:
                        async for event in listed:
                            yield event
                async with aclosing(self._watch()) as watched:
                    async for event in watched:
                        yield event
            except ExpiredError as error:
                self._version = ""
                await self._pause(error, hurry=True)
            except ApiError as error:
                await self._pause(error, hurry=False)
            else:
                await self._pause(None, hurry=True)

    async def _list(self) -> AsyncGenerator[ReflectorEvent[T], None]:
        self.relists += self._lists > 0
        self._lists += 1
        yield InitialListBegins()
        token, size = "", self._page_size
        while True:
            try:
                page = await self._client.list_page(self._resource, self._selection, limit=size, continue_token=token)
            except TooLongError:
                if size == 1:
                    raise
                size = max(size // _FEWER, 1)
                continue
            self._note_life()
            for number, listed in enumerate(page.items, start=1):
                yield InitialObject(listed)
                if number % _OBJECTS_PER_TURN == 0:
                    await asyncio.sleep(0)
            for raw, why in page.unreadable:
                if unreadable := self._tell_unreadable(raw, why):
                    yield unreadable
            token = page.continue_token
            if not token:
                break
        self._version = page.version
        yield InitialListComplete()
        self.synced = True

    async def _watch(self) -> AsyncGenerator[ReflectorEvent[T], None]:
        self.reconnects += self._watches > 0
        self._watches += 1
        started_s = self._timing.monotonic_s()
        delivered = False
        lines = self._client.watch(
            self._resource,
            self._selection,
            version=self._version,
            timeout_s=round(self._timing.uniform(300, 600)),
            silence_s=self._timing.silence_s,
        )
        try:
            async with aclosing(lines):
                async for line in lines:
                    self._note_life()
                    event = self._understand(line)
                    if event is not None:
                        delivered = True
                        self.changes += 1
                        yield event
        finally:
            lived_s = self._timing.monotonic_s() - started_s
            if lived_s >= _GOOD_STREAM_S:
                self._backoff.reset()
            if delivered or lived_s >= _USEFUL_STREAM_S:
                self._may_hurry = True

    def _understand(self, line: WatchLine) -> ReflectorEvent[T] | None:
        """Turn a line into an event and move the version; return ``None`` for bookmarks and lines without an object."""
        if line.type == "ERROR":
            raise self._stream_error(line)
        event = self._read_change(line)
        known = event.object if isinstance(event, Applied | Deleted) else _identify(line.object)
        self._version = known.metadata.resource_version or self._version
        return event

    def _read_change(self, line: WatchLine) -> Applied[T] | Deleted[T] | Unreadable | None:
        if line.type == "BOOKMARK":
            return None
        if line.type not in _CHANGES:
            self._tell_unreadable(line.object, f"unknown event type {line.type!r}")
            return None
        try:
            found = self._resource.keep(decode_by(self._decoder, line.object))
        except BAD_JSON as error:
            unreadable = self._tell_unreadable(line.object, str(error))
            if unreadable is None or line.type != "DELETED":
                return unreadable
            # A deletion must not get lost with an unreadable object: its name is enough.
            found = self._decoder.decode(msgspec.json.encode(_identify(line.object)))
        return Deleted(found) if line.type == "DELETED" else Applied(found)

    def _tell_unreadable(self, raw: msgspec.Raw, why: str) -> Unreadable | None:
        """Count and log an object that cannot be read; return the event for it, None when it has no name."""
        self.bad_objects += 1
        found = _identify(raw).metadata
        target = self._resource.describe(namespace=found.namespace, name=found.name)
        _log.warning("object cannot be read", target=target, error=why)
        if not found.name:
            return None
        known = ObjectMeta(found.name, found.namespace, found.uid, found.resource_version)
        return Unreadable(known, msgspec.Raw(bytes(raw)), why)

    def _stream_error(self, line: WatchLine) -> ApiError:
        target = self._resource.describe(namespace=self._selection.namespace)
        try:
            status = decode(line.object, Status)
        except BAD_JSON as error:
            status = Status(message=f"an error in the stream that cannot be read: {error}")
        return error_of_status("watch", target, status, status=status.code or 0)

    async def _pause(self, error: ApiError | None, *, hurry: bool) -> None:
        """Wait before the next try; do not wait with ``hurry``, unless the last hurried try failed."""
        if hurry and self._may_hurry:
            self._may_hurry = False
            return
        delay_s = max(self._backoff.delay_s(), (error.retry_after_s or 0.0) if error else 0.0)
        self.failures += 1
        target = self._resource.describe(namespace=self._selection.namespace)
        _log.warning(
            "watch interrupted", target=target, error=str(error or "closed at once"), delay_s=round(delay_s, 1)
        )
        await self._timing.sleep(delay_s)
        self._may_hurry = True

    def _note_life(self) -> None:
        self.last_event_s = self._timing.monotonic_s()


def _identify(raw: msgspec.Raw) -> _Identified:
    """Return the metadata of an object, empty when even that cannot be read."""
    try:
        return decode(raw, _Identified)
    except BAD_JSON:
        return _Identified()
