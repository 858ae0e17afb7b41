"""Kubernetes Events about objects, for the people who look at them. Nothing waits for an event, and none may do harm.

:meth:`EventRecorder.record` only notes; one task writes. Notes beyond the limits are dropped and counted.
"""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Literal, Self

import msgspec
import structlog

from gpuloom.kube.backoff import Backoff
from gpuloom.kube.client import WRITE_DEADLINE_S, KubeClient
from gpuloom.kube.errors import AlreadyExistsError, ApiError, NotFoundError
from gpuloom.kube.rate_limiter import RateLimit, RateLimiter
from gpuloom.kube.resources import EVENTS

MESSAGE_BYTES = 1024
QUEUE_EVENTS = 5000
"""Most notes of each type that may wait."""
QUEUE_UNTOLD = 256
"""Most waiting notes whose text is not made yet: what it is made from may be large."""
Message = str | Callable[[], str]
"""The text, or a function that makes it when the event is written."""
EventKind = Literal["Normal", "Warning"]
PACES = {"Warning": RateLimit(100, 100), "Normal": RateLimit(20, 50)}
"""How fast events are written: events must not slow down what they report, Normal ones least of all."""
_WAY_S = 0.1
_MOST_WAYS = 10
"""How often a Normal event gives way to the other work of its process."""
MOST_TRIES = 12
LONGEST_PAUSE_S = 10.0
"""An event that the API server cannot take now is tried so often, with longer and longer pauses: for about a minute."""
_REMEMBERED = 4096
_BURST = 25
_REFILL_S = 300.0
_NAME_BYTES = 253
_log = structlog.get_logger(__name__)


class Subject(msgspec.Struct, frozen=True, gc=False):
    """The object of the core group that an event is about; ``namespace`` is empty for cluster-wide ones."""

    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def full_name(self) -> str:
        """``namespace/name`` of the object."""
        return f"{self.namespace}/{self.name}"


class _Note(msgspec.Struct, frozen=True, gc=False):
    """What is said about a subject; equal notes become one event with a count."""

    subject: Subject
    type: str
    reason: str
    message: Message

    def digest(self) -> bytes:
        """Return a digest of what is said, to remember it by: thousands of texts would take megabytes."""
        said = (*msgspec.structs.astuple(self.subject), self.type, self.reason, str(self.message))
        return blake2b("\0".join(said).encode(errors="replace"), digest_size=16).digest()


class _Pending(msgspec.Struct, gc=False):
    """How often and when a note was made since it was last written.

    tries  how often it was tried to write it
    name   of the event that was tried to be created: it may be there though no answer came
    """

    count: int
    first: datetime
    last: datetime
    tries: int = 0
    name: str = ""

    def add(self, earlier: "_Pending") -> None:
        """Count the same note, which was made earlier, with this one."""
        self.count += earlier.count
        self.first, self.tries, self.name = earlier.first, earlier.tries, earlier.name


class _Written(msgspec.Struct, gc=False):
    """The event that stands for a note on the server."""

    name: str
    count: int


class _Topic(msgspec.Struct, frozen=True, gc=False):
    """What an allowance is for: what is said often of a subject must not silence what is said once of it."""

    subject: Subject
    reason: str


class _Allowance(msgspec.Struct, gc=False):
    """A token bucket: ``tokens`` at the time ``at_s``."""

    tokens: float
    at_s: float


class EventRecorder:
    """Writes events as ``component``; an async context manager that writes what is left for ``closing_s`` at the end.

    While ``is_busy``, one Normal event a second is written. What the API server cannot take now is tried again.
    ``dropped`` counts notes that were not tried (queue full, too many for one reason about one object, closed),
    ``failed`` those that the API server refused or did not take for too long.
    """

    def __init__(
        self,
        client: KubeClient,
        component: str,
        *,
        closing_s: float = 5.0,
        is_busy: Callable[[], bool] = lambda: False,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.dropped = 0
        self.failed = 0
        self._client = client
        self._component = component
        self._closing_s = closing_s
        self._is_busy = is_busy
        self._now = now
        self._monotonic_s = monotonic_s
        # Warnings first: somebody waits for an explanation.
        self._queues: dict[str, OrderedDict[_Note, _Pending]] = {"Warning": OrderedDict(), "Normal": OrderedDict()}
        self._sleep = sleep
        self._paces = {kind: RateLimiter(limit, sleep=sleep, monotonic_s=monotonic_s) for kind, limit in PACES.items()}
        # By the digest of what they say.
        self._written: OrderedDict[bytes, _Written] = OrderedDict()
        self._allowances: OrderedDict[_Topic, _Allowance] = OrderedDict()
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._untold = 0
        # By UID and reason, those that wait and whose text is not made yet: the last of each.
        self._late: dict[tuple[str, str], _Note] = {}
        self._backoff = Backoff(ceiling_s=LONGEST_PAUSE_S)
        self._closed = False
        self._resting: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._drain(), name="event recorder")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        if self._resting is not None:
            self._resting.cancel()
        try:
            async with asyncio.timeout(self._closing_s):
                await self.flush()
        except TimeoutError:
            _log.warning("events left unwritten", count=sum(map(len, self._queues.values())))
        finally:
            await self._stop()
            for queue in self._queues.values():
                self.dropped += sum(pending.count for pending in queue.values())
                queue.clear()

    def record(self, subject: Subject, kind: EventKind, reason: str, message: Message) -> None:
        """Note an event about an object; never blocks, never raises.

        ``message`` is cut to 1,024 bytes. It may be a function, which is called when the event is written: for texts
        that are costly to make and that may be dropped.
        """
        if self._closed or not self._allow(_Topic(subject, reason)):
            self.dropped += 1
            return
        note = _Note(subject, kind, reason, cut(message, MESSAGE_BYTES) if isinstance(message, str) else message)
        now = self._now()
        queue = self._queues[kind]
        pending = queue.get(note)
        if pending is not None:
            pending.count += 1
            pending.last = now
        elif len(queue) >= QUEUE_EVENTS or (callable(message) and self._untold >= QUEUE_UNTOLD):
            self.dropped += 1
        else:
            if callable(message):
                self._untold += 1
                self._late[subject.uid, reason] = note
            queue[note] = _Pending(1, now, now)
            self._idle.clear()
            self._work.set()

    def withdraw(self, uid: str, reason: str) -> None:
        """Take back an event that waits, if its text is not made yet: another one says what counts now."""
        note = self._late.pop((uid, reason), None)
        if note is not None and self._queues[note.type].pop(note, None) is not None:
            self._untold -= 1

    async def flush(self) -> None:
        """Wait until everything noted so far is written or has failed."""
        await self._idle.wait()

    def _allow(self, topic: _Topic) -> bool:
        now_s = self._monotonic_s()
        allowance = self._allowances.setdefault(topic, _Allowance(_BURST, now_s))
        self._allowances.move_to_end(topic)
        if len(self._allowances) > _REMEMBERED:
            self._allowances.popitem(last=False)
        allowance.tokens = min(_BURST, allowance.tokens + (now_s - allowance.at_s) / _REFILL_S)
        allowance.at_s = now_s
        if allowance.tokens < 1:
            return False
        allowance.tokens -= 1
        return True

    async def _drain(self) -> None:
        while True:
            await self._work.wait()
            while kind := self._next_kind():
                if not self._closed:
                    await self._paces[kind].keep()
                    await self._give_way()
                # A warning that came meanwhile goes first, and what waited may have been taken back.
                if kind := self._next_kind():
                    await self._write_next(self._queues[kind])
            self._work.clear()
            self._idle.set()

    async def _write_next(self, queue: OrderedDict[_Note, _Pending]) -> None:
        note, pending = queue.popitem(last=False)
        if (told := self._tell(note)) is None:
            self.failed += pending.count
        elif not await self._write(told, pending):
            if (later := queue.get(told)) is not None:
                later.add(pending)
            else:
                queue[told] = pending
            await self._rest()

    async def _rest(self) -> None:
        """Let the API server recover; leaving ends it."""
        self._resting = asyncio.ensure_future(self._sleep(self._backoff.delay_s()))
        await asyncio.wait([self._resting])

    async def _give_way(self) -> None:
        """Wait for a quiet moment, but not for long, and not while warnings wait."""
        for _ in range(_MOST_WAYS):
            if self._closed or self._queues["Warning"] or not self._is_busy():
                return
            await self._sleep(_WAY_S)

    def _tell(self, note: _Note) -> _Note | None:
        """Return a note with its text, None when the text cannot be made."""
        if isinstance(note.message, str):
            return note
        self._untold -= 1
        if self._late.get(key := (note.subject.uid, note.reason)) is note:
            del self._late[key]
        try:
            return msgspec.structs.replace(note, message=cut(note.message(), MESSAGE_BYTES))
        except Exception:  # noqa: BLE001 - others' events must be written all the same
            _log.exception("event without text", reason=note.reason, object=note.subject.full_name)
            return None

    def _next_kind(self) -> str:
        """Return the type of the event to be written next, empty when none waits."""
        return next((kind for kind, queue in self._queues.items() if queue), "")

    async def _write(self, note: _Note, pending: _Pending) -> bool:
        """Write an event; tell whether there is no need to try again."""
        pending.tries += 1
        try:
            # The text may have taken a while to make.
            await asyncio.sleep(0)
            digest = note.digest()
            written = self._written.get(digest)
            if written is None or not await self._repeat(note, written, pending):
                written = await self._create(note, pending)
            self._remember(digest, written)
            self._backoff.reset()
        except asyncio.CancelledError:
            self.failed += pending.count
            raise
        except ApiError as error:
            may_pass = error.status == 0 or error.outcome_unknown
            if may_pass and not self._closed and pending.tries < MOST_TRIES:
                return False
            self.failed += pending.count
            _log.warning("event not written", error=str(error), reason=note.reason, message=note.message)
        except Exception:  # noqa: BLE001 - others' events must be written all the same
            self.failed += pending.count
            _log.exception(
                "event not written, by a fault of gpuloom", reason=note.reason, object=note.subject.full_name
            )
        return True

    async def _repeat(self, note: _Note, written: _Written, pending: _Pending) -> bool:
        """Increase the count of the event that says the same; return ``False`` when the server no longer has it."""
        count = written.count + pending.count
        body = {"count": count, "lastTimestamp": _timestamp(pending.last)}
        namespace = _namespace(note.subject)
        try:
            await self._client.patch(EVENTS, written.name, body, namespace=namespace, timeout_s=WRITE_DEADLINE_S)
        except NotFoundError:
            return False
        written.count = count
        return True

    async def _create(self, note: _Note, pending: _Pending) -> _Written:
        """Create the event; one that was created by a try without an answer gets its count."""
        pending.name = pending.name or _event_name(note.subject.name)
        body = self._body(note, pending)
        try:
            await self._client.create(EVENTS, body, namespace=_namespace(note.subject), timeout_s=WRITE_DEADLINE_S)
        except AlreadyExistsError:
            written = _Written(pending.name, 0)
            await self._repeat(note, written, pending)
            return written
        return _Written(pending.name, pending.count)

    def _remember(self, digest: bytes, written: _Written) -> None:
        self._written[digest] = written
        self._written.move_to_end(digest)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    def _body(self, note: _Note, pending: _Pending) -> dict[str, Any]:
        subject = note.subject
        return {
            "metadata": {"name": pending.name, "namespace": _namespace(subject)},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": subject.kind,
                "namespace": subject.namespace,
                "name": subject.name,
                "uid": subject.uid,
            },
            "type": note.type,
            "reason": note.reason,
            "message": note.message,
            "count": pending.count,
            "firstTimestamp": _timestamp(pending.first),
            "lastTimestamp": _timestamp(pending.last),
            "source": {"component": self._component},
            "reportingComponent": self._component,
        }

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None


def cut(text: str, limit_bytes: int) -> str:
    """Shorten ``text`` to at most ``limit_bytes`` of UTF-8, never inside a character."""
    return text.encode(errors="replace")[:limit_bytes].decode(errors="ignore")


def _namespace(subject: Subject) -> str:
    return subject.namespace or "default"


def _event_name(object_name: str) -> str:
    suffix = "." + secrets.token_hex(8)
    return object_name[: _NAME_BYTES - len(suffix)].rstrip("-.") + suffix


def _timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
