"""The routes of the dashboard: signing in and out, pages, their streams, and their files."""

from collections.abc import Awaitable, Callable, Generator
from functools import wraps
from typing import Any
from urllib.parse import parse_qsl, quote

import structlog
from aiohttp import web
from yarl import URL

from gpuloom.serving.bodies import TooLargeError, read_body
from gpuloom.serving.rights import LONGEST_TOKEN, RightsError, SignInError, User
from gpuloom.serving.turns import FairTurns
from gpuloom.web.api import MOST_OF_ONE, READ_TIMEOUT_S, WebApi
from gpuloom.web.dashboard.asked import Asked, Maker, read_asked
from gpuloom.web.dashboard.drawing import draw_document, draw_frame, prepare
from gpuloom.web.dashboard.live import Live
from gpuloom.web.dashboard.pages.decisions import make_decision, make_decisions
from gpuloom.web.dashboard.pages.fits import make_form, read_wish
from gpuloom.web.dashboard.pages.holding import make_pods
from gpuloom.web.dashboard.pages.nodes import make_card, make_card_at, make_node, make_nodes
from gpuloom.web.dashboard.pages.overview import make_overview
from gpuloom.web.dashboard.pages.pods import make_pending, make_pod
from gpuloom.web.dashboard.pages.quotas import make_quotas
from gpuloom.web.dashboard.regions import DashboardPage
from gpuloom.web.dashboard.sharing import Sharing
from gpuloom.web.dashboard.static import answer_asset
from gpuloom.web.dashboard.streaming import Streams
from gpuloom.web.entrance import is_from_here
from gpuloom.web.parameters import LONGEST_SHOWN
from gpuloom.web.refusals import RefusedError
from gpuloom.web.sessions import TooManySessionsError
from gpuloom.web.views.source import Viewer

PAGES: dict[str, Maker] = {
    "/": make_overview,
    "/nodes": make_nodes,
    "/nodes/{node}": make_node,
    "/cards/{uuid}": make_card,
    "/cards/{node}/{index}": make_card_at,
    "/pods": make_pods,
    "/pending": make_pending,
    "/pods/{namespace}/{pod}": make_pod,
    "/quotas": make_quotas,
    "/decisions": make_decisions,
    "/decisions/{number}": make_decision,
    "/fits": make_form,
}
LIVE_ROOT = "/live"
CARDS = "/cards"
NODES = "/nodes"
SIGN_IN = "/sign-in"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ONLY_BY_FORM = (
    "a token is only taken from the form of this site: open /sign-in in a browser; "
    "scripts send it with each request, as Authorization: Bearer TOKEN"
)
_LONGEST_SIGN_IN = 2 * LONGEST_TOKEN
_LONGEST_FORM = 256 * 1024
_MOST_FIELDS = 32

_log = structlog.get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Dashboard:
    """The pages over one API."""

    def __init__(self, api: WebApi) -> None:
        prepare()
        self._api = api
        self._turns = FairTurns(MOST_OF_ONE)
        self._pages = Sharing(self._make)
        self._live = Live(self._pages.make, api.pace)
        self._streams = Streams(api, self._live)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        pages = [web.get(path, self._guard(self._answer(path))) for path in PAGES]
        streams = [web.get(LIVE_ROOT + path.rstrip("/"), self._streams.answer(path)) for path in PAGES]
        return [
            *pages,
            *streams,
            web.post("/fits", self._guard(self._fits)),
            web.get(CARDS, self._guard(self._lead_to_card)),
            web.get(SIGN_IN, self._show_sign_in),
            web.post(SIGN_IN, self._sign_in),
            web.post("/sign-out", self._sign_out),
            web.get("/static/{digest}/{name}", answer_asset),
            web.get("/{path:.*}", self._guard(_refuse_path)),
        ]

    async def close(self) -> None:
        """End all streams, so that nothing waits for browsers."""
        await self._live.close()

    async def _make(self, asked: Asked) -> DashboardPage:
        # Those who may see the same share pages, so they also share turns.
        async with self._turns.take(asked.viewer):
            return await PAGES[asked.route](self._api, asked)

    def _answer(self, path: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            user, viewer = await self._api.viewer(request)
            if path == "/" and not viewer.nodes:
                raise web.HTTPSeeOther("/pending")
            asked = read_asked(request, path, viewer)
            return await self._show(await self._pages.make(asked), request, user, viewer)

        return handle

    async def _lead_to_card(self, request: web.Request) -> web.StreamResponse:
        """Lead from a name that somebody wrote, a UUID or NODE/INDEX, to the card's page, from a node's to its own."""
        _, viewer = await self._api.viewer(request)
        name = request.query.get("name", "").strip().removeprefix("card/").strip("/")
        pages = NODES if not name or (viewer.nodes and self._api.source.has_node(name)) else CARDS
        raise web.HTTPSeeOther(URL(f"{pages}/{quote(name)}".rstrip("/"), encoded=True))

    async def _fits(self, request: web.Request) -> web.StreamResponse:
        # Nobody's form is read but that of somebody who is known.
        await self._api.recognise(request)
        try:
            wish = read_wish(await _read_form(request, _LONGEST_FORM))
        except TooLargeError as error:
            raise RefusedError(413, "the form is too long: give the pod alone") from error
        user, viewer = await self._api.viewer(request, frozenset({wish.namespace}))
        asked = read_asked(request, "/fits", viewer)
        return await self._show(await make_form(self._api, asked, wish), request, user, viewer)

    def _guard(self, handler: Handler) -> Handler:
        """Answer with a page where a request is refused; whoever is not signed in is asked to."""

        @wraps(handler)
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return await handler(request)
            except RefusedError as error:
                if error.code == 401:
                    raise web.HTTPSeeOther(URL(SIGN_IN).with_query(next=request.path_qs)) from error
                return _show_error(error.code, str(error), lacks_right=error.code == 403)

        return handle

    async def _show(self, page: DashboardPage, request: web.Request, user: User, viewer: Viewer) -> web.Response:
        """Send a page, as two slices of work: what is one person's alone, and what all see."""
        live = _find_stream(request.rel_url) if page.is_live else ""
        facts = {"page": page, "user": user.name, "viewer": viewer, "live": live}
        body = await self._api.pace.finish(_write_document(page, facts))
        return web.Response(body=body, content_type="text/html", charset="utf-8", headers=_HEADERS)

    async def _show_sign_in(self, request: web.Request) -> web.StreamResponse:
        return _show_sign_in(request.query.get("next", "/"), "")

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        try:
            fields = await _read_form(request, _LONGEST_SIGN_IN) if is_from_here(request) else None
        except (TooLargeError, RefusedError):
            fields = None
        if fields is None:
            return _show_error(403, _ONLY_BY_FORM)
        token, after = str(fields.get("token", "")).strip(), _keep_local(str(fields.get("next", "/")))
        try:
            user = await self._api.rights.recognise(token, request.remote or "")
            response = web.Response(status=303, headers={**_HEADERS, "Location": after})
            self._api.entrance.admit(response, token, user.name)
        except SignInError as error:
            _log.info("sign-in refused")
            return _show_sign_in(after, str(error), 401)
        except (RightsError, TooManySessionsError) as error:
            return _show_sign_in(after, str(error), 503)
        _log.info("signed in", user=user.name)
        return response

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        if not is_from_here(request):
            return _show_error(403, "signing out is only done from the pages of this site")
        response = web.Response(status=303, headers={**_HEADERS, "Location": SIGN_IN})
        self._api.entrance.dismiss(request, response)
        return response


async def _refuse_path(request: web.Request) -> web.StreamResponse:
    raise RefusedError(404, f"there is no page {request.path[:LONGEST_SHOWN]}")


async def _read_form(request: web.Request, most_bytes: int) -> dict[str, str]:
    """Read what a browser sent.

    Raises TooLargeError, RefusedError when it is no form.
    """
    body = await read_body(request, most_bytes, READ_TIMEOUT_S)
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise RefusedError(400, "this is no form of these pages") from error


def _keep_local(path: str) -> str:
    """Return a path of this site; anything else becomes the first page."""
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_local else "/"


def _write_document(page: DashboardPage, facts: dict[str, Any]) -> Generator[None, None, bytes]:
    head, tail = draw_frame("page", **facts)
    yield
    return b"".join((head.encode(), page.draw().encode(), tail.encode()))


def _find_stream(url: URL) -> str:
    query = f"?{url.raw_query_string}" if url.raw_query_string else ""
    return f"{LIVE_ROOT}{url.raw_path.rstrip('/')}{query}"


def _show_error(code: int, message: str, *, lacks_right: bool = False) -> web.Response:
    text = draw_document("error", code=code, message=message, lacks_right=lacks_right)
    return web.Response(text=text, status=code, content_type="text/html", headers=_HEADERS)


def _show_sign_in(after: str, problem: str, code: int = 200) -> web.Response:
    text = draw_document("signin", after=_keep_local(after), problem=problem)
    return web.Response(text=text, status=code, content_type="text/html", headers=_HEADERS)
