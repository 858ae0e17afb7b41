"""The scheduler that a way leads to: the one that is named, or the one behind the API server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpuloom.client.clusters import open_cluster
from gpuloom.client.direct import open_server
from gpuloom.client.errors import NoWayError
from gpuloom.client.idiom import COMMAND_LINE, Idiom
from gpuloom.client.installation import WebService, find_installation, read_service_flag
from gpuloom.client.served import ServedReader
from gpuloom.client.way import Way
from gpuloom.kube import KubeClient


@asynccontextmanager
async def open_scheduler(way: Way) -> AsyncIterator[ServedReader]:
    """Give who answers for the scheduler, and nobody else.

    Raises AskingError in one line.
    """
    if way.server:
        async with open_server(way) as reader:
            yield reader
        return
    named = read_service_flag(way.service, way.idiom)
    async with open_cluster(way) as (client, namespace):
        yield await find_behind(client, namespace, named, way.idiom)


async def find_behind(
    client: KubeClient, namespace: str, named: WebService | None, idiom: Idiom = COMMAND_LINE
) -> ServedReader:
    """Give the way to the scheduler's Service, and to no other: it is named by a flag or by the installation.

    Raises NoWayError where it does not lead there.
    """
    if not (token := await client.token()):
        raise NoWayError(
            "the kubeconfig has no token to show to the scheduler: a client certificate cannot be shown, "
            "and over plain http nothing is"
        )
    service = named or (await find_installation(client, idiom=idiom)).service
    found = ServedReader(client, namespace, f"Service {service}", prefix=service.proxy_path, token=token, idiom=idiom)
    await found.check()
    return found
