"""Lists in pages: every page shows the same version, as long as the history reaches back to it."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from gpuloom.local.apiserver.kinds import Kind
from gpuloom.local.apiserver.objects import Json
from gpuloom.local.apiserver.requests import read_number, read_revision
from gpuloom.local.apiserver.selectors import Selection
from gpuloom.local.apiserver.statuses import bad_request, expired, too_new
from gpuloom.local.apiserver.store import Record, Store

LATEST = -1
TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class _Token(msgspec.Struct, frozen=True):
    """Where a list goes on: the version it shows, and the last key it has shown."""

    rv: int
    after: tuple[str, str]

    def encode(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()


@dataclass(frozen=True, slots=True)
class Page:
    """Some records, the version they were taken at, and how to go on."""

    records: list[Record]
    revision: int
    next_token: str = ""
    remaining: int | None = None

    def metadata(self) -> Json:
        """Return the list's ``metadata``."""
        metadata: Json = {"resourceVersion": str(self.revision)}
        if self.next_token:
            metadata["continue"] = self.next_token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata


def read_page(store: Store, kind: Kind, selection: Selection, query: Mapping[str, str]) -> Page:
    """Answer one list request; raises ApiStatusError (400, 410 for a version forgotten, 504 for one to come)."""
    limit = read_number(query, "limit")
    if query.get("continue"):
        return _continue(store, kind, selection, _decode(query["continue"]), limit)
    revision = read_revision(query)
    if revision is not None and revision > store.revision:
        raise too_new(revision, store.revision)
    if revision and (limit or query.get("resourceVersionMatch") == "Exact"):
        return _cut(_past(store, kind, revision), selection, limit, revision)
    if revision == 0:
        limit = 0
    return _cut(store.collection(kind).records(selection.namespace), selection, limit, store.revision)


def _past(store: Store, kind: Kind, revision: int) -> list[Record]:
    oldest = store.collection(kind).forgotten
    if revision < oldest:
        raise expired(f"The resourceVersion for the provided list is too old: {revision} ({oldest})")
    return list(store.at(kind, revision).values())


def _continue(store: Store, kind: Kind, selection: Selection, token: _Token, limit: int) -> Page:
    revision = store.revision if token.rv == LATEST else token.rv
    if revision < store.collection(kind).forgotten:
        raise expired(TOO_OLD, metadata={"continue": _Token(LATEST, token.after).encode()})
    records = store.at(kind, revision).values()
    return _cut([record for record in records if record.key > token.after], selection, limit, revision)


def _cut(records: Iterable[Record], selection: Selection, limit: int, revision: int) -> Page:
    matching = sorted(
        (record for record in records if selection.matches(record.value)),
        key=lambda record: record.key,
    )
    if not limit or len(matching) <= limit:
        return Page(matching, revision)
    page = matching[:limit]
    remaining = None if selection.has_selectors else len(matching) - limit
    return Page(page, revision, _Token(revision, page[-1].key).encode(), remaining)


def _decode(text: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
