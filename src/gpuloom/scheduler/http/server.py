"""Which listeners a scheduler has, what each of them serves, and under which certificate (binding 6 and 7)."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from aiohttp import web

from gpuloom.kube import KubeClient
from gpuloom.scheduler.bind.verb import CLOSING_S
from gpuloom.scheduler.certificates.files import FileCertificates
from gpuloom.scheduler.certificates.selfmanaged import SelfManagedCertificates
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.http.routes import Routes
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.serving.addresses import CannotServeError, split_address
from gpuloom.serving.admittance import admit
from gpuloom.serving.callers import Doors
from gpuloom.serving.connections import Handler, Limits
from gpuloom.serving.listener import Listening, listen
from gpuloom.serving.presented import CertificateError, Presented
from gpuloom.serving.rights import Rights
from gpuloom.serving.selfsigned import present_own

Certificates = FileCertificates | SelfManagedCertificates

_OF_KUBE_SCHEDULER = Limits(most=8192, most_of_one=8192, unread=256 * 1024)
"""Each Bind that waits for the lock of a node has a connection, and all come from one address. Bodies are large, and
taken at once."""


@dataclass(frozen=True, slots=True)
class Urls:
    """Where a process serves; the extender's is that of the main port unless it has its own. Empty: nowhere."""

    main: str = ""
    extender: str = ""
    metrics: str = ""


async def open_certificates(settings: SchedulerSettings, client: KubeClient, clocks: Clocks) -> Certificates | None:
    """Get the server's certificate, None when none is configured.

    Raises CannotServeError when it cannot be used.
    """
    try:
        if settings.tls_self_manage:
            return await _open_self_managed(settings, client, clocks)
        if not settings.cert_file and not settings.key_file:
            return None
        if not settings.cert_file or not settings.key_file:
            raise CannotServeError("HTTPS needs both --cert_file and --key_file: give both or neither")
        return FileCertificates(settings.cert_file, settings.key_file, clocks)
    except CertificateError as error:
        raise CannotServeError(str(error)) from error


async def _open_self_managed(
    settings: SchedulerSettings, client: KubeClient, clocks: Clocks
) -> SelfManagedCertificates:
    namespace, name = settings.tls_secret
    certificates = SelfManagedCertificates(
        client,
        clocks,
        namespace=namespace,
        name=name,
        hosts=settings.tls_host_names,
        webhook=settings.tls_webhook,
    )
    await certificates.open()
    return certificates


async def serve(
    stack: AsyncExitStack,
    settings: SchedulerSettings,
    routes: Routes,
    scrape: Handler,
    presented: Presented | None,
    doors: Doors,
    rights: Rights,
) -> Urls:
    """Open all listeners until the stack closes.

    Raises CannotServeError when an address cannot be used.
    """
    metrics = ""
    if settings.metrics_bind_address:
        listening = await _serve_metrics(stack, settings, scrape, presented, rights)
        doors.connections["metrics"] = listening.connections
        metrics = listening.url
    main, extender = await _serve_calls(stack, settings, routes, presented, doors)
    return Urls(main, extender, metrics)


async def _serve_metrics(
    stack: AsyncExitStack, settings: SchedulerSettings, scrape: Handler, presented: Presented | None, rights: Rights
) -> Listening:
    address = split_address("--metrics-bind-address", settings.metrics_bind_address)
    if not settings.metrics_auth:
        return await listen(stack, address, [web.get("/metrics", scrape)], None)
    shown = presented or present_own()
    return await listen(stack, address, [web.get("/metrics", admit(rights, "/metrics", scrape))], shown.context)


async def _serve_calls(
    stack: AsyncExitStack,
    settings: SchedulerSettings,
    routes: Routes,
    presented: Presented | None,
    doors: Doors,
) -> tuple[str, str]:
    tls = presented.context if presented else None
    address = split_address("--http_bind", settings.http_bind)
    has_own_port = bool(settings.extender_bind)
    try:
        asking = doors.callers.open() if doors.callers else tls
    except CertificateError as error:
        raise CannotServeError(str(error)) from error
    main = await listen(
        stack,
        address,
        routes.main(address, doors.callers, with_extender=not has_own_port),
        asking,
        limits=Limits() if has_own_port else _OF_KUBE_SCHEDULER,
        closing_s=CLOSING_S,
    )
    doors.connections["main"] = main.connections
    if not has_own_port:
        return main.url, main.url
    address = split_address("--extender-bind", settings.extender_bind)
    if tls is None and not address.is_loopback:
        raise CannotServeError(
            f"--extender-bind {settings.extender_bind} can be reached from outside: give it a certificate, "
            "or listen on 127.0.0.1"
        )
    # Whoever is on this side of the loopback interface shares our pod, and needs no certificate.
    extender = await listen(
        stack,
        address,
        routes.extender(),
        None if address.is_loopback else tls,
        limits=_OF_KUBE_SCHEDULER,
        closing_s=CLOSING_S,
    )
    doors.connections["extender"] = extender.connections
    return main.url, extender.url
