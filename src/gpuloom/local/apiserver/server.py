"""The server as a whole: it listens, lets in who has the token, turns failures into Status objects.

Everything lives in memory and ends with the context.
"""

import asyncio
import datetime as dt
import errno
import ssl
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog
from aiohttp import web

from gpuloom.kube.authority import CertificateAuthority
from gpuloom.local.apiserver.accounts import ACCESS_REVIEWS, TOKEN_REVIEWS, Accounts, check_right
from gpuloom.local.apiserver.admission import Admission
from gpuloom.local.apiserver.faults import Fault, Faults
from gpuloom.local.apiserver.handlers import Api, respond_error
from gpuloom.local.apiserver.kinds import KINDS, NAMESPACES
from gpuloom.local.apiserver.kubeconfig import write_kubeconfig
from gpuloom.local.apiserver.proxy import Proxy
from gpuloom.local.apiserver.quotas import Quotas
from gpuloom.local.apiserver.requests import BODY_LIMIT_BYTES, decode, parse_path, read_flag
from gpuloom.local.apiserver.statuses import ApiStatusError, internal, unauthorized
from gpuloom.local.apiserver.store import Store
from gpuloom.local.apiserver.streams import Streamer
from gpuloom.local.apiserver.watches import Watchers
from gpuloom.local.apiserver.writes import Writer

FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/livez", "/version"})
BOOKMARK_INTERVAL_S = 60.0
HISTORY_SIZE = 10_000
QUEUE_SIZE = 10_000
SHUTDOWN_S = 1.0

LOG = structlog.get_logger(__name__)


def _utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


class LocalApiServer:
    """A Kubernetes API server in this process, on loopback; an async context manager.

    ``port`` 0 takes a free one. ``history_size`` changes per kind are remembered for watches and pages, ``queue_size``
    events may wait for a slow watcher before it is dropped. Entering raises OSError, in one line, if the port is taken.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: bool = True,
        history_size: int = HISTORY_SIZE,
        queue_size: int = QUEUE_SIZE,
        bookmark_interval_s: float = BOOKMARK_INTERVAL_S,
        clock: Callable[[], dt.datetime] = _utc_now,
    ) -> None:
        self._host = host
        self._port = port
        self._authority = CertificateAuthority.create() if tls else None
        self._store = Store(KINDS, history_size=history_size)
        self._watchers = Watchers(self._store, queue_size=queue_size)
        self._admission = Admission(self._store)
        self._writer = Writer(self._store, self._admission, Quotas(self._store), clock)
        streamer = Streamer(self._store, self._watchers, bookmark_interval_s=bookmark_interval_s)
        self._api = Api(self._writer, streamer, clock)
        self._stack = AsyncExitStack()
        self.accounts = Accounts()
        self.proxy = Proxy()
        self.faults = Faults(self._store, self._watchers)
        for name in FIRST_NAMESPACES:
            labels = {"kubernetes.io/metadata.name": name}
            namespace = {"metadata": {"name": name, "labels": labels}, "spec": {"finalizers": ["kubernetes"]}}
            self._writer.insert(NAMESPACES, namespace)

    @property
    def url(self) -> str:
        """Where the server listens, without a slash at the end."""
        return f"{'https' if self._authority else 'http'}://{self._host}:{self._port}"

    @property
    def token(self) -> str:
        """The token of the administrator."""
        return self.accounts.admin

    @property
    def ca_pem(self) -> bytes:
        """The certificate that clients must trust; empty without TLS."""
        return self._authority.pem if self._authority else b""

    @property
    def dropped_watchers(self) -> int:
        """How many watches were cut because their client did not keep up."""
        return self._watchers.dropped

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=BODY_LIMIT_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._admission)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S, handler_cancellation=True)
            stack.push_async_callback(runner.cleanup)
            await runner.setup()
            stack.callback(self._watchers.close_all)
            await self._listen(runner)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def write_kubeconfig(self, path: Path, *, token: str = "") -> None:
        """Write a kubeconfig for this server, mode 0600: the administrator's without a token; raises OSError."""
        write_kubeconfig(path, url=self.url, ca_pem=self.ca_pem, token=token or self.token)

    async def _listen(self, runner: web.AppRunner) -> None:
        try:
            await web.TCPSite(runner, self._host, self._port, ssl_context=self._tls_context()).start()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            message = f"{self._host}:{self._port} is in use: choose another port with --port"
            raise OSError(errno.EADDRINUSE, message) from error
        self._port = runner.addresses[0][1]

    def _tls_context(self) -> ssl.SSLContext | None:
        if self._authority is None:
            return None
        hosts = dict.fromkeys([self._host, "127.0.0.1", "localhost", "kubernetes.default.svc"])
        certificate, key = self._authority.issue(hosts)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # OpenSSL reads certificates from files only; this one is gone before anybody connects.
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "server.pem")
            file.touch(mode=0o600)
            file.write_bytes(certificate + key)
            context.load_cert_chain(file)
        return context

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        fault = self.faults.take(request.method, request.path_qs)
        try:
            reviewed = await self._let_in(request)
            if fault is None:
                return reviewed or await self._api.answer(request)
            return await self._fail(fault, request)
        except ApiStatusError as error:
            return respond_error(error)
        except Exception as error:  # one broken request must not look like a broken server
            LOG.exception("request failed", method=request.method, path=request.path)
            return respond_error(internal(f"{type(error).__name__}: {error}"))

    async def _let_in(self, request: web.Request) -> web.StreamResponse | None:
        """Check who comes and what they may do; reviews of others are answered here."""
        if request.path in OPEN_PATHS:
            return None
        account = self.accounts.find(request.headers.get("Authorization", ""))
        if account is None:
            raise unauthorized()
        if request.method == "POST" and request.path in (TOKEN_REVIEWS, ACCESS_REVIEWS):
            review = decode(await request.read(), request.content_type, "must be a review")
            return web.json_response(self.accounts.answer(request.path, review), status=201)
        if (proxied := await self.proxy.answer(request, account)) is not None:
            return proxied
        target = parse_path(request.path)
        if target is not None:
            check_right(account, request.method, target, is_watch=read_flag(request.query, "watch"))
        return None

    async def _fail(self, fault: Fault, request: web.Request) -> web.StreamResponse:
        """Answer as an injected fault wants it."""
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.status:
            error = ApiStatusError(fault.status, fault.reason, fault.message)
            return respond_error(error, retry_after_s=fault.retry_after_s)
        if not fault.cut:
            response = await self._api.answer(request)
            if not fault.lose_answer:
                return response
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)
