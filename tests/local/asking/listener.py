"""Somebody who is asked in the scheduler's place, and remembers whatever could be a token."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from gpuloom.kube.authority import CertificateAuthority


@dataclass
class Listener:
    """Answers everything with an empty list, or sends callers on.

    connections  how many calls came as far as this; ``headers`` what they brought
    """

    port: int = 0
    sends_to: str = ""
    headers: list[dict[str, str]] = field(default_factory=list)

    async def answer(self, request: web.BaseRequest) -> web.Response:
        self.headers.append({key.lower(): value for key, value in request.headers.items()})
        if self.sends_to:
            raise web.HTTPTemporaryRedirect(self.sends_to + request.path_qs)
        return web.json_response({"items": []})

    def has_heard(self, token: str) -> bool:
        """Tell whether a token arrived in any header."""
        return any(token in value for headers in self.headers for value in headers.values())


@asynccontextmanager
async def listen(tls: ssl.SSLContext | None = None, *, sends_to: str = "") -> AsyncIterator[Listener]:
    listener = Listener(sends_to=sends_to)
    runner = web.ServerRunner(web.Server(listener.answer), shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        listener.port = runner.addresses[0][1]
        yield listener
    finally:
        await runner.cleanup()
        await asyncio.sleep(0)


def present(authority: CertificateAuthority, hosts: Iterable[str], folder: Path) -> ssl.SSLContext:
    """Make what a server presents that has such a certificate."""
    certificate, key = authority.issue(hosts)
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context
