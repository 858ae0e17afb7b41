"""Watches over HTTP: one line per event, bookmarks, an end after a while, and errors inside the stream."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from aiohttp import web

from gpuloom.local.apiserver.kinds import Kind
from gpuloom.local.apiserver.requests import read_flag, read_number, read_revision
from gpuloom.local.apiserver.selectors import ObjectSelector
from gpuloom.local.apiserver.statuses import ApiStatusError, invalid_options
from gpuloom.local.apiserver.store import ENCODER, Store
from gpuloom.local.apiserver.tables import INITIAL_EVENTS_END, Presentation
from gpuloom.local.apiserver.watches import Watcher, Watchers
from gpuloom.wire.causes import forbidden_field

DEFAULT_TIMEOUT_S = 1800
FAREWELL_S = 2
"""How long before a watch's time is up it gets a last bookmark."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The parameters of one watch. ``since`` is None for a watch that begins with the present objects."""

    since: int | None
    timeout_s: float
    bookmarks: bool
    initial_events_end: bool

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Self:
        """Read them from the query; raises ApiStatusError (400, 422)."""
        initial = read_flag(query, "sendInitialEvents")
        bookmarks = read_flag(query, "allowWatchBookmarks")
        given, match = "sendInitialEvents" in query, query.get("resourceVersionMatch", "")
        if given and match != "NotOlderThan":
            detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise invalid_options(forbidden_field("resourceVersionMatch", detail))
        if match and not given:
            detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise invalid_options(forbidden_field("resourceVersionMatch", detail))
        revision = read_revision(query) or None
        timeout_s = read_number(query, "timeoutSeconds") or DEFAULT_TIMEOUT_S
        return cls(None if initial else revision, timeout_s, bookmarks, initial and bookmarks)


class Streamer:
    """Serves the watches of one server."""

    def __init__(self, store: Store, watchers: Watchers, *, bookmark_interval_s: float) -> None:
        self._store = store
        self._watchers = watchers
        self._bookmark_interval_s = bookmark_interval_s

    async def watch(
        self, request: web.Request, kind: Kind, selection: ObjectSelector, presentation: Presentation
    ) -> web.StreamResponse:
        """Stream events until the client leaves, the time is up or the watcher is too slow."""
        options = WatchOptions.read(request.query)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        transport = request.transport
        drop = transport.abort if transport is not None else _nothing
        try:
            watcher = self._watchers.open(kind, selection, since=options.since, drop=drop)
        except ApiStatusError as error:
            await response.prepare(request)
            await response.write(_line("ERROR", ENCODER.encode(error.body())))
            return response
        try:
            await response.prepare(request)
            await self._stream(response, watcher, options, presentation)
        except ConnectionResetError:
            pass  # The client has left: nobody is there to be told.
        finally:
            self._watchers.end(watcher)
        return response

    async def _stream(
        self, response: web.StreamResponse, watcher: Watcher, options: WatchOptions, presentation: Presentation
    ) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + options.timeout_s
        bookmarks = _Bookmarks(loop.time(), end, self._bookmark_interval_s) if options.bookmarks else None
        initial_end = options.initial_events_end
        while True:
            lines = [_line(event.type, presentation.event(event.record)) for event in watcher.take()]
            if initial_end or (bookmarks and bookmarks.is_due(loop.time())):
                annotations = {INITIAL_EVENTS_END: "true"} if initial_end else {}
                mark = presentation.bookmark(watcher.kind, self._store.revision, annotations)
                lines.append(_line("BOOKMARK", mark))
                initial_end = False
            if lines:
                await response.write(b"".join(lines))
            now = loop.time()
            if watcher.closed or now >= end:
                return
            await watcher.wait(min(end, bookmarks.due if bookmarks else end) - now)


class _Bookmarks:
    """When the next bookmark is due: at intervals, and shortly before the end."""

    def __init__(self, start: float, end: float, interval_s: float) -> None:
        self._interval_s = interval_s
        self._farewell = end - FAREWELL_S if end - FAREWELL_S > start else end
        self._end = end
        self.due = min(start + interval_s, self._farewell)

    def is_due(self, now: float) -> bool:
        """Say whether to send one now, and if so plan the next."""
        if now < self.due:
            return False
        self.due = self._end if now >= self._farewell else min(now + self._interval_s, self._farewell)
        return now < self._end


def _line(kind: str, encoded: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + encoded + b"}\n"


def _nothing() -> None:
    """Stand in for a connection that is gone already."""
