"""Answers as bytes: whole objects and lists, or the Tables that kubectl asks for."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from gpuloom.local.apiserver.columns import columns_of
from gpuloom.local.apiserver.kinds import Kind
from gpuloom.local.apiserver.objects import Json
from gpuloom.local.apiserver.pages import Page
from gpuloom.local.apiserver.statuses import ApiStatusError
from gpuloom.local.apiserver.store import ENCODER, Record

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
ACCEPTED = ("application/json", "application/*", "*/*")


class Presentation(Protocol):
    """A form in which objects are shown to one client."""

    def one(self, record: Record) -> bytes:
        """Show one object."""

    def page(self, kind: Kind, page: Page) -> bytes:
        """Show a list."""

    def event(self, record: Record) -> bytes:
        """Show the object of a watch event."""

    def bookmark(self, kind: Kind, revision: int, annotations: Json) -> bytes:
        """Show the object of a bookmark."""


class Objects:
    """Whole objects."""

    def one(self, record: Record) -> bytes:
        """Show one object."""
        return record.as_object()

    def page(self, kind: Kind, page: Page) -> bytes:
        """Show a list; the items are joined as they were encoded once."""
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": page.metadata()}
        items = b",".join([record.as_item() for record in page.records])
        return ENCODER.encode(head)[:-1] + b',"items":[' + items + b"]}\n"

    def event(self, record: Record) -> bytes:
        """Show the object of a watch event."""
        return record.as_object()

    def bookmark(self, kind: Kind, revision: int, annotations: Json) -> bytes:
        """Show the object of a bookmark: a version and nothing else."""
        metadata = {"resourceVersion": str(revision)} | ({"annotations": annotations} if annotations else {})
        return ENCODER.encode({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata})


@dataclass(slots=True)
class Tables:
    """Rows of cells. ``include`` says how much of each object comes along: Object, Metadata or None."""

    clock: Callable[[], dt.datetime]
    include: str = "Metadata"
    _has_columns: bool = False

    def one(self, record: Record) -> bytes:
        """Show one object as a table of one row."""
        return self._table(record.kind, [record], {"resourceVersion": str(record.revision)}, with_columns=True)

    def page(self, kind: Kind, page: Page) -> bytes:
        """Show a list."""
        return self._table(kind, page.records, page.metadata(), with_columns=True)

    def event(self, record: Record) -> bytes:
        """Show a watch event's object; only the first event of a stream defines the columns."""
        first, self._has_columns = not self._has_columns, True
        return self._table(record.kind, [record], {"resourceVersion": str(record.revision)}, with_columns=first)

    def bookmark(self, kind: Kind, revision: int, annotations: Json) -> bytes:
        """Show a bookmark: a row whose object carries the version."""
        metadata = {"resourceVersion": str(revision)} | ({"annotations": annotations} if annotations else {})
        first, self._has_columns = not self._has_columns, True
        marker = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        row = {"cells": [None] * len(columns_of(kind).names), "object": marker}
        return self._encode(kind, [row], {"resourceVersion": str(revision)}, with_columns=first)

    def _table(self, kind: Kind, records: Iterable[Record], metadata: Json, *, with_columns: bool) -> bytes:
        cells, now = columns_of(kind).cells, self.clock()
        rows = [{"cells": cells(record.value, now), "object": self._object(record)} for record in records]
        return self._encode(kind, rows, metadata, with_columns=with_columns)

    def _encode(self, kind: Kind, rows: list[Json], metadata: Json, *, with_columns: bool) -> bytes:
        return ENCODER.encode(
            {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "columnDefinitions": columns_of(kind).definitions() if with_columns else None,
                "rows": rows,
            }
        )

    def _object(self, record: Record) -> Json | None:
        if self.include == "None":
            return None
        if self.include == "Object":
            return record.full()
        return {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": record.value["metadata"],
        }


def choose_presentation(accept: str, query: Mapping[str, str], clock: Callable[[], dt.datetime]) -> Presentation:
    """Choose the first form of an Accept header that the server has; raises ApiStatusError (406).

    Protobuf is not one of them: clients that offer JSON as well get JSON.
    """
    for offer in accept.split(",") if accept else ("*/*",):
        media_type, *parameters = (part.strip() for part in offer.split(";"))
        options = dict(part.partition("=")[::2] for part in parameters)
        if media_type not in ACCEPTED:
            continue
        if "as" not in options:
            return Objects()
        if (options["as"], options.get("v"), options.get("g")) == ("Table", "v1", "meta.k8s.io"):
            return Tables(clock, query.get("includeObject", "Metadata"))
    raise ApiStatusError(
        406, "NotAcceptable", "only the following media types are accepted: application/json", details={}
    )
