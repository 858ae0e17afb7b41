"""Whose token a request brings: in a header from programs, by a session's cookie from browsers (binding 6)."""

from dataclasses import dataclass

from aiohttp import web
from yarl import URL

from gpuloom.serving.rights import SignInError
from gpuloom.web.protocol import TOKEN_HEADER
from gpuloom.web.sessions import LONGEST_S, Sessions

_HARMLESS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Entrance:
    """Reads who comes in; ``is_tls`` says whether cookies may be kept for encrypted connections."""

    sessions: Sessions
    is_tls: bool

    @property
    def cookie(self) -> str:
        """The cookie's name: browsers keep one of this prefix to this very host and to TLS."""
        return "__Host-gpuloom" if self.is_tls else "gpuloom"

    def read_token(self, request: web.Request) -> str:
        """Return the token of a request, empty without one.

        A cookie is believed only from our own pages when something is sent. Raises SignInError.
        """
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else request.headers.get(TOKEN_HEADER, "").strip()
        cookie = request.cookies.get(self.cookie, "")
        if token or not cookie:
            return token
        if request.method not in _HARMLESS and not is_from_here(request):
            raise SignInError("this was sent by another site: use the form of the page")
        return self.sessions.read(cookie)

    def admit(self, response: web.StreamResponse, token: str, user: str) -> None:
        """Begin a session.

        Raises TooManySessionsError.
        """
        response.set_cookie(
            self.cookie,
            self.sessions.open(token, user),
            max_age=int(LONGEST_S),
            path="/",
            secure=self.is_tls,
            httponly=True,
            samesite="Strict",
        )

    def dismiss(self, request: web.Request, response: web.StreamResponse) -> None:
        """End a session."""
        self.sessions.close(request.cookies.get(self.cookie, ""))
        response.del_cookie(self.cookie, path="/", secure=self.is_tls, httponly=True, samesite="Strict")


def is_from_here(request: web.Request) -> bool:
    """Tell whether a browser says that one of our own pages sent this."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("Origin", "")
    try:
        return bool(origin) and URL(origin).authority == request.host
    except ValueError:
        return False
