"""Pages kept up to date: whoever looks at the same with the same rights shares the work; streams get what changed."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import structlog

from gpuloom.web.api import RefusedError
from gpuloom.web.dashboard.asked import Asked
from gpuloom.web.dashboard.regions import Page, find_changes
from gpuloom.web.pages import Pace

INTERVAL_S = 2.0
"""So old a page may be."""
SHARE_OF_TIME = 0.1
"""More of the time than this is not spent on looking, however much there is to look at."""
MOST_STREAMS = 128
MOST_OF_ONE = 16

_log = structlog.get_logger(__name__)


Changes = dict[str, bytes]


class CrowdedError(Exception):
    """There are too many streams; the message says what to do."""


@dataclass(slots=True, eq=False)
class Stream:
    """What one browser was not told yet; what changes several times before it is told, is told once.

    ``changes`` are elements in JSON by id. ``over``: why there will be nothing more, empty while there may be.
    """

    user: str
    changes: Changes = field(default_factory=dict)
    state: str = ""
    over: str = ""
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, changes: Changes, state: str) -> None:
        """Note what changed."""
        self.changes.update(changes)
        self.state = state
        self.news.set()

    def end(self, why: str) -> None:
        """Note that this is over."""
        self.over = why
        self.news.set()

    def take(self) -> Changes:
        """Return what was not told yet."""
        changes, self.changes = self.changes, {}
        self.news.clear()
        return changes


@dataclass(slots=True)
class _Channel:
    """A page that somebody looks at, as it was last."""

    streams: list[Stream] = field(default_factory=list)
    page: Page | None = None

    def end(self, why: str) -> None:
        for stream in self.streams:
            stream.end(why)


class Live:
    """The pages that are looked at now. It looks only while somebody does."""

    def __init__(self, make: Callable[[Asked], Awaitable[Page]], pace: Pace) -> None:
        self._make = make
        self._pace = pace
        self._channels: dict[Asked, _Channel] = {}
        self._looking: asyncio.Task[None] | None = None

    def join(self, asked: Asked, user: str, state: str) -> Stream:
        """Begin to follow a page; ``state`` is that of the page which the browser shows.

        Raises CrowdedError.
        """
        users = [stream.user for channel in self._channels.values() for stream in channel.streams]
        if len(users) >= MOST_STREAMS or users.count(user) >= MOST_OF_ONE:
            raise CrowdedError("too many pages are open for live updates: close some, or reload this one by hand")
        stream = Stream(user, state=state)
        channel = self._channels.setdefault(asked, _Channel())
        channel.streams.append(stream)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return stream

    def leave(self, asked: Asked, stream: Stream) -> None:
        """Stop to follow a page."""
        channel = self._channels.get(asked)
        if channel is not None and stream in channel.streams:
            channel.streams.remove(stream)
            if not channel.streams:
                del self._channels[asked]

    async def close(self) -> None:
        """End all streams and stop looking."""
        for channel in self._channels.values():
            channel.end("closing")
        self._channels.clear()
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking

    async def _look(self) -> None:
        while self._channels:
            began = time.perf_counter()
            for asked, channel in list(self._channels.items()):
                await self._refresh(asked, channel)
            spent = time.perf_counter() - began
            await asyncio.sleep(max(INTERVAL_S, spent / SHARE_OF_TIME))

    async def _refresh(self, asked: Asked, channel: _Channel) -> None:
        try:
            page = await self._make(asked)
            await self._tell(channel, page)
        except RefusedError as error:
            channel.end(str(error))
            return
        except Exception:  # noqa: BLE001 - one page's fault must not end all the others
            _log.exception("page cannot be made", path=asked.path)
            channel.end("this page cannot be made: the scheduler's log says why")

    async def _tell(self, channel: _Channel, page: Page) -> None:
        """Tell everybody who saw another state than this; whoever did not see the last one is shown everything."""
        before, channel.page = channel.page, page
        changes: dict[bool, Changes] = {}
        for stream in list(channel.streams):
            if stream.state != page.state:
                is_known = before is not None and stream.state == before.state
                if is_known not in changes:
                    changes[is_known] = await self._write(before if is_known else None, page)
                stream.tell(changes[is_known], page.state)

    async def _write(self, before: Page | None, after: Page) -> Changes:
        """Write what changed as JSON, once for all."""
        found = find_changes(before, after)
        return dict(await self._pace.collect((name, msgspec.json.encode(str(html))) for name, html in found))
