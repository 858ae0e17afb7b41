"""Who watches what: changes become events for each watcher's selection, in bounded queues.

A watcher that does not keep up is dropped, never buffered without bound. No HTTP here.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from gpuloom.local.apiserver.kinds import Kind
from gpuloom.local.apiserver.objects import look_up
from gpuloom.local.apiserver.selectors import Selection
from gpuloom.local.apiserver.statuses import expired
from gpuloom.local.apiserver.store import Change, Record, Store

INDEXED_FIELDS = ("metadata.name", "spec.nodeName")
"""Thousands of nodes watch one object each: a change must not ask them all."""

Bucket = tuple[Kind, str, str]
EventType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch."""

    type: EventType
    record: Record


class Watcher:
    """One watch under way. ``drop`` is called once, when it has been given up."""

    def __init__(self, kind: Kind, selection: Selection, *, limit: int, drop: Callable[[], None]) -> None:
        self.kind = kind
        self.selection = selection
        self.closed = False
        self._limit = limit
        self._drop = drop
        self._events: deque[WatchEvent] = deque()
        self._wake = asyncio.Event()

    def offer(self, change: Change) -> bool:
        """Queue a change if it is of interest; False if the queue was full and the watcher is dropped."""
        event = self._translate(change)
        if event is None:
            return True
        if len(self._events) >= self._limit:
            self.drop()
            return False
        self._events.append(event)
        self._wake.set()
        return True

    def preload(self, events: Iterable[WatchEvent]) -> None:
        """Put the events of the past first; their number is bounded by the store."""
        self._events.extend(events)
        self._wake.set()

    async def wait(self, timeout_s: float) -> None:
        """Return when there is something to send, when closed, or after the time."""
        if self._events or self.closed:
            return
        self._wake.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            return

    def take(self) -> list[WatchEvent]:
        """Return and forget everything queued."""
        events = list(self._events)
        self._events.clear()
        return events

    def close(self) -> None:
        """End the stream after what is queued."""
        self.closed = True
        self._wake.set()

    def drop(self) -> None:
        """Cut the stream at once."""
        self.close()
        self._drop()

    def replay(self, changes: Iterable[Change]) -> None:
        """Queue changes of the past."""
        self.preload(event for change in changes if (event := self._translate(change)) is not None)

    def _translate(self, change: Change) -> WatchEvent | None:
        """Turn a write into what this selection sees: an object may begin or cease to match."""
        matches = self.selection.matches
        before, after = change.before, change.after
        matched = before is not None and matches(before.value)
        if change.type != "DELETED" and matches(after.value):
            return WatchEvent("MODIFIED" if matched else "ADDED", after)
        if not matched or before is None:
            return None
        if change.type == "DELETED":
            return WatchEvent("DELETED", after)
        return WatchEvent("DELETED", Record(before.kind, before.value, after.revision))


class Watchers:
    """All watches of one server."""

    def __init__(self, store: Store, *, queue_size: int) -> None:
        self._store = store
        self._queue_size = queue_size
        self._buckets: dict[Bucket, set[Watcher]] = {}
        self.dropped = 0
        store.on_change(self._publish)

    def open(self, kind: Kind, selection: Selection, *, since: int | None, drop: Callable[[], None]) -> Watcher:
        """Begin a watch after version ``since``, or with the present objects if None.

        Raises ApiStatusError (410) if the version has left the history.
        """
        watcher = Watcher(kind, selection, limit=self._queue_size, drop=drop)
        collection = self._store.collection(kind)
        if since is None:
            present = sorted(collection.records(selection.namespace), key=lambda record: record.key)
            watcher.preload(WatchEvent("ADDED", record) for record in present if selection.matches(record.value))
        elif since < collection.forgotten:
            raise expired(f"too old resource version: {since} ({collection.forgotten})")
        else:
            watcher.replay(collection.since(since))
        self._buckets.setdefault(_bucket(watcher), set()).add(watcher)
        return watcher

    def end(self, watcher: Watcher) -> None:
        """Forget a watch."""
        bucket = _bucket(watcher)
        watchers = self._buckets[bucket]
        watchers.discard(watcher)
        if not watchers:
            del self._buckets[bucket]

    def close_all(self) -> None:
        """End every stream in order."""
        for watcher in chain.from_iterable(self._buckets.values()):
            watcher.close()

    def cut(self, kind: Kind) -> int:
        """Break the connections of all watches of a kind; return how many."""
        cut = [watcher for watcher in chain.from_iterable(self._buckets.values()) if watcher.kind is kind]
        for watcher in cut:
            watcher.drop()
        return len(cut)

    def _publish(self, change: Change) -> None:
        for bucket in _buckets_of(change):
            for watcher in list(self._buckets.get(bucket, ())):
                if not watcher.closed and not watcher.offer(change):
                    self.dropped += 1


def _bucket(watcher: Watcher) -> Bucket:
    """Return where a watcher waits: by the one name or node that it is about, else with all others of its kind."""
    for term in watcher.selection.fields:
        if term.path in INDEXED_FIELDS and term.equal:
            return (watcher.kind, term.path, term.value)
    return (watcher.kind, "", "")


def _buckets_of(change: Change) -> Iterable[Bucket]:
    """Return where watchers may wait for a change: for the object as it was, as it is, or for any."""
    kind = change.after.kind
    states = [record.value for record in (change.before, change.after) if record is not None]
    named = ((kind, path, str(look_up(value, path) or "")) for path in INDEXED_FIELDS for value in states)
    return dict.fromkeys([(kind, "", ""), *named])
