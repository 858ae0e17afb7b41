"""Which listeners a scheduler has, what each of them serves, and under which certificate (binding 6 and 7)."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from aiohttp import web

from gpuloom.kube import KubeClient
from gpuloom.scheduler.certificates.files import FileCertificates
from gpuloom.scheduler.certificates.selfmanaged import SelfManagedCertificates
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.metrics.process import make_scraper
from gpuloom.scheduler.parts import Parts
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.settling import CLOSING_S
from gpuloom.serving.addresses import CannotServeError, split_address
from gpuloom.serving.admittance import admit
from gpuloom.serving.connections import Limits
from gpuloom.serving.listener import Listening, listen
from gpuloom.serving.presented import CertificateError, Presented
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


async def serve(stack: AsyncExitStack, parts: Parts, presented: Presented | None) -> Urls:
    """Open all listeners until the stack closes.

    Raises CannotServeError when an address cannot be used.
    """
    metrics = ""
    if parts.settings.metrics_bind_address:
        listening = await _serve_metrics(stack, parts, presented)
        parts.listeners.connections["metrics"] = listening.connections
        metrics = listening.url
    main, extender = await _serve_calls(stack, parts, presented)
    return Urls(main, extender, metrics)


async def _serve_metrics(stack: AsyncExitStack, parts: Parts, presented: Presented | None) -> Listening:
    address = split_address("--metrics-bind-address", parts.settings.metrics_bind_address)
    scrape = make_scraper(parts, presented)
    if not parts.settings.metrics_auth:
        return await listen(stack, address, [web.get("/metrics", scrape)], None)
    shown = presented or present_own()
    return await listen(stack, address, [web.get("/metrics", admit(parts.rights, "/metrics", scrape))], shown.context)


async def _serve_calls(stack: AsyncExitStack, parts: Parts, presented: Presented | None) -> tuple[str, str]:
    settings, routes, listeners = parts.settings, parts.routes(), parts.listeners
    tls = presented.context if presented else None
    address = split_address("--http_bind", settings.http_bind)
    has_own_port = bool(settings.extender_bind)
    try:
        asking = listeners.callers.open() if listeners.callers else tls
    except CertificateError as error:
        raise CannotServeError(str(error)) from error
    main = await listen(
        stack,
        address,
        routes.main(address, listeners.callers, with_extender=not has_own_port),
        asking,
        limits=Limits() if has_own_port else _OF_KUBE_SCHEDULER,
        closing_s=CLOSING_S,
    )
    listeners.connections["main"] = main.connections
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
    listeners.connections["extender"] = extender.connections
    return main.url, extender.url
