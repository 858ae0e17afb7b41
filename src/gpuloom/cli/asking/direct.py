"""The direct way, ``--server``: who may be shown the user's token is decided before anything is sent (trust T-01)."""

import ipaddress
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from yarl import URL

from gpuloom.cli.asking.clusters import open_cluster
from gpuloom.cli.asking.flags import SourceFlags
from gpuloom.cli.asking.installation import WebService, find_installation, read_service_flag
from gpuloom.cli.asking.served import NoWayError, ServedReader
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.kube import Credentials, CredentialsError, KubeClient
from gpuloom.kube.login import is_loopback

TOKEN_VARIABLE = "GPULOOM_TOKEN"  # noqa: S105 - the variable's name
_GIVE_CA = "give the certificate authority with --server-ca"


@dataclass(frozen=True, slots=True)
class Recognition:
    """How the server is recognized.

    authority    whose certificates are believed (PEM), the system's where empty
    server_name  the name that the certificate must have, that of the URL where empty
    """

    authority: bytes = b""
    server_name: str = ""


@asynccontextmanager
async def open_server(flags: SourceFlags) -> AsyncIterator[ServedReader]:
    """Give a reader that asks ``--server``; nothing has been sent yet.

    Raises CommandError in one line.
    """
    url = flags.server.rstrip("/")
    recognition = await _recognize(url, flags)
    token, namespace = await _find_token(flags)
    try:
        credentials = Credentials.for_token(
            url, token, ca_pem=recognition.authority, server_name=recognition.server_name
        )
    except CredentialsError as error:
        raise CommandError(f"--server: {error}", ExitCode.USAGE) from error
    async with KubeClient(credentials) as client:
        yield ServedReader(client, namespace, f"scheduler at {flags.server}")


async def _find_token(flags: SourceFlags) -> tuple[str, str]:
    token, namespace = os.environ.get(TOKEN_VARIABLE, ""), "default"
    if not token:
        async with open_cluster(flags) as (cluster, namespace):
            token = await cluster.token()
    if not token:
        raise CommandError(
            f"the kubeconfig has no token for {flags.server}: set {TOKEN_VARIABLE}, "
            "for example to the output of kubectl create token",
            ExitCode.UNKNOWN,
        )
    return token, namespace


async def _recognize(url: str, flags: SourceFlags) -> Recognition:
    service = read_service_flag(flags.service)
    scheme, host = _read_url(url)
    if scheme == "http":
        if not is_loopback(host):
            raise CommandError(
                f"--server {url} is plain http, so no token is sent there: use https, or a port-forward to "
                "this machine",
                ExitCode.UNKNOWN,
            )
        return Recognition()
    if flags.server_ca:
        try:
            return Recognition(flags.server_ca.read_bytes(), service.host if service else "")
        except OSError as error:
            raise CommandError(f"--server-ca {flags.server_ca}: {error.strerror}", ExitCode.USAGE) from error
    if service is None and _is_public(host):
        return Recognition()
    return await _ask_installation(url, flags, service)


async def _ask_installation(url: str, flags: SourceFlags, service: WebService | None) -> Recognition:
    try:
        async with open_cluster(flags) as (cluster, _):
            installation = await find_installation(cluster, service)
    except (NoWayError, CommandError) as error:
        told = f"nothing says who {url} is, so no token is sent there: {error}; or {_GIVE_CA}"
        raise CommandError(told, ExitCode.UNKNOWN) from error
    if not installation.authority:
        raise CommandError(
            f"nothing says who {url} is, so no token is sent there: "
            f"{installation.name} has no caBundle yet; wait for it, or {_GIVE_CA}",
            ExitCode.UNKNOWN,
        )
    return Recognition(installation.authority, installation.service.host)


def _read_url(url: str) -> tuple[str, str]:
    try:
        read = URL(url)
    except ValueError:
        read = URL()
    if read.scheme not in {"http", "https"} or not read.host:
        raise CommandError(f"--server: {url!r} is no http or https URL: correct it", ExitCode.USAGE)
    return read.scheme, read.host


def _is_public(host: str) -> bool:
    """Whether the system's authorities can vouch for a host: no address, and no name that only a cluster knows."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        words = host.rstrip(".").lower().split(".")
        return len(words) > 1 and "svc" not in words and words[-1] != "localhost"
    return False
