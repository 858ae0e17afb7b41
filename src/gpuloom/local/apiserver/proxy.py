"""The API server's proxy to services and pods: what is behind them is told by whoever started it.

As in kube-apiserver the caller's Authorization stays here, and the way to a backend is not checked.
"""

from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from yarl import URL

from gpuloom.local.apiserver.accounts import Account
from gpuloom.local.apiserver.kinds import PODS, SERVICES
from gpuloom.local.apiserver.statuses import ApiStatusError, not_found

_KEPT = frozenset({"authorization", "host", "connection", "content-length", "transfer-encoding", "accept-encoding"})


@dataclass(slots=True)
class Proxy:
    """Backends by what stands in the path: ``services`` or ``pods``, namespace, ``name:port`` without the scheme."""

    _urls: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def add(self, plural: str, namespace: str, name: str, url: str) -> None:
        """Say where a service or a pod is served, ``name`` with its port."""
        self._urls[plural, namespace, name] = url

    async def answer(self, request: web.Request, account: Account) -> web.StreamResponse | None:
        """Pass a request on, None when it is not for a backend; raises ApiStatusError (403, 404)."""
        match request.rel_url.raw_path.split("/"):
            case ["", "api", "v1", "namespaces", namespace, ("services" | "pods") as plural, name, "proxy", *rest]:
                if not account.allows("get", f"{plural}/proxy", namespace):
                    message = f'{plural} "{name}" is forbidden: User "{account.name}" cannot get "{plural}/proxy"'
                    raise ApiStatusError(403, "Forbidden", message)
                place = name.removeprefix("https:").removeprefix("http:")
                backend = self._urls.get((plural, namespace, place))
                if backend is None:
                    raise not_found(SERVICES if plural == "services" else PODS, place.partition(":")[0])
                path = f"{'/'.join(rest)}?{request.rel_url.raw_query_string}"
                return await _pass_on(request, URL(f"{backend}/{path}", encoded=True))
        return None


async def _pass_on(request: web.Request, url: URL) -> web.StreamResponse:
    headers = {key: value for key, value in request.headers.items() if key.lower() not in _KEPT}
    body = await request.read() or None
    async with (
        aiohttp.ClientSession() as session,
        session.request(request.method, url, headers=headers, data=body, ssl=False, allow_redirects=False) as reply,
    ):
        content = await reply.read()
        return web.Response(body=content, status=reply.status, headers={"Content-Type": reply.headers["Content-Type"]})
