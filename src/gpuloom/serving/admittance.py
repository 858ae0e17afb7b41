"""Who may read paths of no object, such as ``/metrics``: asks the API server, as kube-scheduler does."""

from aiohttp import web

from gpuloom.serving.connections import Handler
from gpuloom.serving.rights import Rights, RightsError, SignInError

_CHALLENGE = {"WWW-Authenticate": "Bearer"}


def read_bearer(request: web.Request) -> str:
    """Return the token of a request's Authorization header, empty without one."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def admit(rights: Rights, path: str, handler: Handler) -> Handler:
    """Answer only callers whose token may get a path (``nonResourceURLs``), before a body is read (trust T-10)."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            user = await rights.recognise(read_bearer(request), request.remote or "")
            is_allowed = await rights.may_get(user, path)
        except SignInError as error:
            raise web.HTTPUnauthorized(text=str(error), headers=_CHALLENGE) from error
        except RightsError as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from error
        if not is_allowed:
            raise web.HTTPForbidden(
                text=f"{user.name} may not get {path}: give it a role with nonResourceURLs: [{path}]"
            )
        return await handler(request)

    return handle
