"""The direct way, ``--server``: who may be shown the user's token is decided before anything is sent (trust T-01)."""

import ipaddress
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gpuloom.client.clusters import open_cluster
from gpuloom.client.errors import MisusedError, UnansweredError
from gpuloom.client.installation import WebService, find_installation, read_service_flag
from gpuloom.client.served import ServedReader
from gpuloom.client.way import Way
from gpuloom.kube import Credentials, CredentialsError, KubeClient
from gpuloom.kube.login import is_loopback, read_server
from gpuloom.kube.threaded import ThreadedConnections
from gpuloom.web.protocol import API_ROOT

TOKEN_VARIABLE = "GPULOOM_TOKEN"  # noqa: S105 - the variable's name


@dataclass(frozen=True, slots=True)
class Recognition:
    """How the server is recognized.

    authority    whose certificates are believed (PEM), the system's where empty
    server_name  the name that the certificate must have, that of the URL where empty
    """

    authority: bytes = b""
    server_name: str = ""


@asynccontextmanager
async def open_server(way: Way) -> AsyncIterator[ServedReader]:
    """Give a reader that asks ``--server``; nothing has been sent yet.

    Raises AskingError in one line.
    """
    url = way.server.rstrip("/").removesuffix(API_ROOT)
    recognition = await _recognize(url, way)
    token, namespace = await _find_token(way)
    try:
        credentials = Credentials.for_token(
            url, token, ca_pem=recognition.authority, server_name=recognition.server_name
        )
    except CredentialsError as error:
        raise MisusedError(f"{way.idiom.parameter('server')}: {error}") from error
    async with KubeClient(credentials, connections=ThreadedConnections()) as client:
        yield ServedReader(client, namespace, f"scheduler at {way.server}", idiom=way.idiom)


async def _find_token(way: Way) -> tuple[str, str]:
    token, namespace = os.environ.get(TOKEN_VARIABLE, ""), "default"
    if not token:
        try:
            async with open_cluster(way) as (cluster, namespace):
                token = await cluster.token()
        except UnansweredError as error:
            told = f"{error}; or give the token for {way.server} in the variable {TOKEN_VARIABLE}"
            raise UnansweredError(told) from error
    if not token:
        raise UnansweredError(
            f"the kubeconfig has no token for {way.server}: set {TOKEN_VARIABLE}, "
            "for example to the output of kubectl create token"
        )
    return token, namespace


async def _recognize(url: str, way: Way) -> Recognition:
    service, server = read_service_flag(way.service, way.idiom), way.idiom.parameter("server")
    try:
        scheme, host = read_server(url)
    except ValueError as error:
        raise MisusedError(f"{server}: {error}") from None
    if scheme == "http":
        if not is_loopback(host):
            raise UnansweredError(
                f"{server} {url} is plain http, so no token is sent there: use https, or a port-forward to this machine"
            )
        return Recognition()
    if way.server_ca:
        try:
            return Recognition(way.server_ca.read_bytes(), service.host if service else "")
        except OSError as error:
            raise MisusedError(f"{way.idiom.parameter('server_ca')} {way.server_ca}: {error.strerror}") from error
    if service is None and _is_public(host):
        return Recognition()
    return await _ask_installation(url, way, service)


async def _ask_installation(url: str, way: Way, service: WebService | None) -> Recognition:
    give_ca = f"give the certificate authority with {way.idiom.parameter('server_ca')}"
    try:
        async with open_cluster(way) as (cluster, _):
            installation = await find_installation(cluster, service, idiom=way.idiom)
    except UnansweredError as error:
        told = f"nothing says who {url} is, so no token is sent there: {error}; or {give_ca}"
        raise UnansweredError(told) from error
    if not installation.authority:
        raise UnansweredError(
            f"nothing says who {url} is, so no token is sent there: "
            f"{installation.name} has no caBundle yet; wait for it, or {give_ca}"
        )
    return Recognition(installation.authority, installation.service.host)


def _is_public(host: str) -> bool:
    """Whether the system's authorities can vouch for a host: no address, and no name that only a cluster knows."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        words = host.rstrip(".").lower().split(".")
        return len(words) > 1 and "svc" not in words and words[-1] != "localhost"
    return False
