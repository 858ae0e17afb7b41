"""What somebody wants to see: equal questions have equal answers, so they are worked out once."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from aiohttp import web

from gpuloom.web.api import WebApi
from gpuloom.web.dashboard.regions import DashboardPage
from gpuloom.web.refusals import RefusedError
from gpuloom.web.views.source import Viewer

ROWS = 100
"""So many rows a table has on one page."""

_LONGEST_OPTION = 256
_MOST_OPTIONS = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """A page's route, the names in its path, the options behind the question mark, and who looks."""

    route: str
    path: str
    names: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]
    viewer: Viewer

    def name(self, key: str) -> str:
        """Return a name of the path."""
        return dict(self.names)[key]

    def option(self, key: str, default: str = "") -> str:
        """Return an option, the last if there are several."""
        return dict(self.options).get(key, default).strip()

    @property
    def page_number(self) -> int:
        """Which page of a long table is asked for, from 1."""
        text = self.option("page", "1")
        return max(int(text), 1) if text.isdecimal() and len(text) < 7 else 1

    def link(self, **options: str | int) -> str:
        """Return the path with some options set, those that are empty left out."""
        chosen = {**dict(self.options), **{key: str(value) for key, value in options.items()}}
        query = urlencode({key: value for key, value in chosen.items() if value})
        return f"{self.path}?{query}" if query else self.path


Maker = Callable[[WebApi, Asked], Awaitable[DashboardPage]]
"""Makes a page; raises RefusedError when there is nothing to see."""


@dataclass(frozen=True, slots=True)
class Turning:
    """Where one is in a long table; links are empty at its ends."""

    number: int
    before: str
    after: str

    @property
    def rows(self) -> slice:
        """The place of this page's rows among all."""
        return slice((self.number - 1) * ROWS, self.number * ROWS)


def read_asked(request: web.Request, route: str, viewer: Viewer) -> Asked:
    """Read a request for a page or for its stream.

    Raises RefusedError when there are too many or too long options.
    """
    options = tuple((key, value) for key, value in request.query.items() if key != "state")
    if len(options) > _MOST_OPTIONS or any(len(value) > _LONGEST_OPTION for _, value in options):
        raise RefusedError(400, "too many or too long options behind the question mark")
    names = dict(request.match_info)
    path = route.format_map({name: quote(value, safe="") for name, value in names.items()})
    return Asked(route, path, tuple(sorted(names.items())), options, viewer)


def turn(asked: Asked, count: int) -> Turning:
    """Return where in a table of so many rows somebody is: beyond its end, on its last page."""
    number = min(asked.page_number, max(-(-count // ROWS), 1))
    before = asked.link(page=number - 1 if number > 2 else "") if number > 1 else ""
    after = asked.link(page=number + 1) if number * ROWS < count else ""
    return Turning(number, before, after)
