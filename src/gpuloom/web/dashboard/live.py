"""Pages kept up to date: whoever looks at the same with the same rights shares the work; streams get what changed."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
import structlog

from gpuloom.serving.crowds import crowd_of, find_greedy
from gpuloom.web.dashboard.asked import Asked
from gpuloom.web.dashboard.measuring import Measured
from gpuloom.web.dashboard.regions import DashboardPage, find_changes
from gpuloom.web.pacing import Pace
from gpuloom.web.refusals import RefusedError

INTERVAL_S = 2.0
"""So old a page may be."""
RETRY_S = 10.0
"""After so long a page that could not be made is tried again."""
SHARE_OF_TIME = 0.03
"""Looking takes no more of the event loop's time than this, however much there is to look at."""
MOST_STREAMS = 128
MOST_OF_ONE = 16
_TOO_MANY = "too many pages are open for live updates: close some, or reload this one by hand"

_log = structlog.get_logger(__name__)


Changes = dict[str, bytes]


class TooManyStreamsError(Exception):
    """There are too many streams; the message says what to do."""


@dataclass(slots=True, eq=False)
class Stream:
    """What one browser was not told yet; what changes several times before it is told, is told once.

    ``changes`` are elements in JSON by id. ``trouble``: why the page cannot be made at the moment, empty where it can.
    ``over``: why there will be nothing more, empty while there may be.
    """

    user: str
    changes: Changes = field(default_factory=dict)
    state: str = ""
    trouble: str = ""
    over: str = ""
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, changes: Changes, state: str) -> None:
        """Note what changed."""
        self.changes.update(changes)
        self.state = state
        self.news.set()

    def tell_trouble(self, why: str) -> None:
        """Note why the page cannot be made at the moment, or that it can."""
        if why != self.trouble:
            self.trouble = why
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
    """A page that somebody looks at, as it was last.

    ``trouble``: why it could not be made the last time. ``spent_s``: how long that took, without what it waited for.
    """

    looking: asyncio.Task[None]
    streams: list[Stream] = field(default_factory=list)
    page: DashboardPage | None = None
    trouble: str = ""
    spent_s: float = 0.0

    def tell_trouble(self, why: str) -> None:
        self.trouble = why
        for stream in self.streams:
            stream.tell_trouble(why)

    def end(self, why: str) -> None:
        for stream in self.streams:
            stream.end(why)


class Live:
    """The pages that are looked at now. It looks only while somebody does; no page waits for another."""

    def __init__(self, make: Callable[[Asked], Awaitable[DashboardPage]], pace: Pace) -> None:
        self._make = make
        self._pace = pace
        self._channels: dict[Asked, _Channel] = {}

    def join(self, asked: Asked, user: str, state: str) -> Stream:
        """Begin to follow a page; ``state`` is that of the page which the browser shows.

        Raises TooManyStreamsError.
        """
        users = [stream.user for channel in self._channels.values() for stream in channel.streams]
        is_full = len(users) >= MOST_STREAMS and not self._make_room(users, user)
        if is_full or users.count(user) >= MOST_OF_ONE:
            raise TooManyStreamsError(_TOO_MANY)
        stream = Stream(user, state=state)
        if asked not in self._channels:
            self._channels[asked] = _Channel(asyncio.create_task(self._look(asked)))
        channel = self._channels[asked]
        channel.streams.append(stream)
        stream.tell_trouble(channel.trouble)
        return stream

    def _make_room(self, users: list[str], newcomer: str) -> bool:
        """End a stream of whoever has most, a person or a namespace's service accounts; tell whether one ended."""
        greedy = find_greedy(users, newcomer)
        for asked, channel in self._channels.items():
            for stream in channel.streams:
                if crowd_of(stream.user) == greedy:
                    stream.end(_TOO_MANY)
                    self.leave(asked, stream)
                    return True
        return False

    def leave(self, asked: Asked, stream: Stream) -> None:
        """Stop to follow a page."""
        channel = self._channels.get(asked)
        if channel is not None and stream in channel.streams:
            channel.streams.remove(stream)
            if not channel.streams:
                del self._channels[asked]
                channel.looking.cancel()

    async def close(self) -> None:
        """End all streams and stop looking."""
        channels = list(self._channels.values())
        self._channels.clear()
        for channel in channels:
            channel.end("closing")
            channel.looking.cancel()
        await asyncio.gather(*(channel.looking for channel in channels), return_exceptions=True)

    async def _look(self, asked: Asked) -> None:
        channel = self._channels[asked]
        may_go_on = True
        while may_go_on:
            # At first too: whoever comes has just been shown the page, and others wait for theirs.
            await asyncio.sleep(self._find_pause(channel))
            refreshing = Measured(self._refresh(asked, channel))
            may_go_on = await refreshing
            channel.spent_s = refreshing.spent_s

    def _find_pause(self, channel: _Channel) -> float:
        spent_s = sum(one.spent_s for one in self._channels.values())
        return max(RETRY_S if channel.trouble else INTERVAL_S, spent_s / SHARE_OF_TIME)

    async def _refresh(self, asked: Asked, channel: _Channel) -> bool:
        """Make the page and tell what changed; return whether it may be made again."""
        try:
            await self._tell(channel, await self._make(asked))
        except RefusedError as error:
            # Rights are part of what is asked for, so they do not change here; anything else may.
            if error.code == 403:
                self._end(asked, str(error))
                return False
            channel.tell_trouble(str(error))
        except Exception:  # noqa: BLE001 - the fault is told in the log, and on the page that has it
            _log.exception("page cannot be made", path=asked.path)
            self._end(asked, "this page cannot be made: the scheduler's log says why")
            return False
        else:
            channel.tell_trouble("")
        return True

    def _end(self, asked: Asked, why: str) -> None:
        """Take away a page that cannot be made any more; whoever asks for it again begins anew."""
        self._channels.pop(asked).end(why)

    async def _tell(self, channel: _Channel, page: DashboardPage) -> None:
        """Tell everybody who saw another state than this; whoever did not see the last one is shown everything."""
        before, channel.page = channel.page, page
        changes: dict[bool, Changes] = {}
        for stream in list(channel.streams):
            if stream.state != page.state:
                is_known = before is not None and stream.state == before.state
                if is_known not in changes:
                    changes[is_known] = await self._write(before if is_known else None, page)
                stream.tell(changes[is_known], page.state)

    async def _write(self, before: DashboardPage | None, after: DashboardPage) -> Changes:
        """Write what changed as JSON, once for all."""
        found = find_changes(before, after)
        return dict(await self._pace.collect((name, msgspec.json.encode(str(html))) for name, html in found))
