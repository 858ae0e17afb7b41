"""All objects in memory, their versions, and a bounded history of changes.

Every write is one synchronous step: readers and writers on the same event loop never see half of one. The store knows
nothing about HTTP, and trusts its callers to have checked what they write. Values are never changed once they are in.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

import msgspec

from gpuloom.local.apiserver.kinds import Kind
from gpuloom.local.apiserver.objects import Json, with_metadata

ENCODER = msgspec.json.Encoder()


class Record:
    """One version of one object; its JSON is encoded at most once."""

    __slots__ = ("_encoded", "kind", "name", "namespace", "revision", "value")

    def __init__(self, kind: Kind, value: Json, revision: int) -> None:
        metadata = value["metadata"]
        self.kind = kind
        self.name: str = metadata["name"]
        self.namespace: str = metadata.get("namespace", "")
        self.revision = revision
        self.value = {"metadata": {**metadata, "resourceVersion": str(revision)}} | {
            key: member for key, member in value.items() if key not in ("metadata", "kind", "apiVersion")
        }
        self._encoded = b""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name: the order of lists."""
        return (self.namespace, self.name)

    def full(self) -> Json:
        """Return the object with its kind, as a shallow copy."""
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version, **self.value}

    def as_item(self) -> bytes:
        """Return the JSON of a list's item: without the kind, as kube-apiserver leaves it out."""
        if not self._encoded:
            self._encoded = ENCODER.encode(self.value)
        return self._encoded

    def as_object(self) -> bytes:
        """Return the JSON of the object on its own."""
        head = f'{{"kind":"{self.kind.kind}","apiVersion":"{self.kind.api_version}",'
        return head.encode() + self.as_item()[1:]


@dataclass(frozen=True, slots=True)
class Change:
    """One write: what was there, and what is there now. ``after`` of a deletion is the last state, newly versioned."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    before: Record | None
    after: Record

    @property
    def revision(self) -> int:
        """Version that the write made."""
        return self.after.revision


@dataclass(slots=True)
class Collection:
    """The objects of one kind, and their recent changes.

    ``forgotten`` is the newest version whose change has left the history: nothing before it can be told any more.
    """

    kind: Kind
    history: deque[Change]
    forgotten: int = 0
    by_namespace: dict[str, dict[str, Record]] = field(default_factory=dict)

    def records(self, namespace: str = "") -> Iterable[Record]:
        """Return the records of a namespace, or of all, in no order."""
        if namespace:
            return self.by_namespace.get(namespace, {}).values()
        return chain.from_iterable(names.values() for names in self.by_namespace.values())

    def remember(self, change: Change) -> None:
        """Append to the history; the oldest change leaves when it is full."""
        if len(self.history) == self.history.maxlen:
            self.forgotten = self.history[0].revision
        self.history.append(change)

    def since(self, revision: int) -> Iterator[Change]:
        """Return the changes after a version, oldest first."""
        return (change for change in self.history if change.revision > revision)


class Store:
    """Objects by kind, namespace and name; ``on_change`` is called once per write, after it."""

    def __init__(self, kinds: Iterable[Kind], *, history_size: int) -> None:
        self._collections = {kind: Collection(kind, deque(maxlen=history_size)) for kind in kinds}
        self._listeners: list[Callable[[Change], None]] = []
        self.revision = 1

    def on_change(self, listener: Callable[[Change], None]) -> None:
        """Call the listener after every write, in order."""
        self._listeners.append(listener)

    def collection(self, kind: Kind) -> Collection:
        """Return the objects of a kind."""
        return self._collections[kind]

    def get(self, kind: Kind, namespace: str, name: str) -> Record | None:
        """Return the current record, or None."""
        return self._collections[kind].by_namespace.get(namespace, {}).get(name)

    def create(self, kind: Kind, value: Json) -> Record:
        """Add an object whose name is free."""
        self.revision += 1
        record = Record(kind, value, self.revision)
        collection = self._collections[kind]
        collection.by_namespace.setdefault(record.namespace, {})[record.name] = record
        self._publish(collection, Change("ADDED", None, record))
        return record

    def replace(self, before: Record, value: Json) -> Record:
        """Write a new version; a value that changes nothing keeps the record as it is."""
        after = Record(before.kind, value, before.revision)
        if after.value == before.value:
            return before
        self.revision += 1
        after = Record(before.kind, value, self.revision)
        collection = self._collections[before.kind]
        collection.by_namespace[before.namespace][before.name] = after
        self._publish(collection, Change("MODIFIED", before, after))
        return after

    def remove(self, before: Record) -> Record:
        """Delete an object; return its last state with the version of the deletion."""
        self.revision += 1
        after = Record(before.kind, before.value, self.revision)
        collection = self._collections[before.kind]
        names = collection.by_namespace[before.namespace]
        del names[before.name]
        if not names:
            del collection.by_namespace[before.namespace]
        self._publish(collection, Change("DELETED", before, after))
        return after

    def at(self, kind: Kind, revision: int) -> dict[tuple[str, str], Record]:
        """Return a kind's records as they were at a version that the history still reaches."""
        collection = self._collections[kind]
        records = {record.key: record for record in collection.records()}
        for change in reversed(collection.history):
            if change.revision <= revision:
                break
            if change.before is None:
                records.pop(change.after.key, None)
            else:
                records[change.before.key] = change.before
        return records

    def forget(self) -> None:
        """Empty every history, as a compaction does: older versions are expired from now on."""
        for collection in self._collections.values():
            collection.history.clear()
            collection.forgotten = self.revision

    def _publish(self, collection: Collection, change: Change) -> None:
        collection.remember(change)
        for listener in self._listeners:
            listener(change)


def marked_deleted(record: Record, *, at: str, grace_period_s: int) -> Json:
    """Return the object's value with the marks of a deletion under way."""
    return with_metadata(record.value, deletionTimestamp=at, deletionGracePeriodSeconds=grace_period_s)
