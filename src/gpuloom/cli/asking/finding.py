"""Who answers: the scheduler that is named, one behind the API server, the API server's own objects, or a recording."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from gpuloom.cli.asking.flags import ClusterFlags, SourceFlags
from gpuloom.cli.asking.progress import show_work
from gpuloom.cli.asking.reader import Reader
from gpuloom.cli.asking.served import NoWayError, ServedReader
from gpuloom.cli.outcomes import CommandError
from gpuloom.kube import ApiError, Credentials, CredentialsError, KubeClient, load_default
from gpuloom.kube.resources import SERVICES
from gpuloom.web.place import SERVICE_LABEL, SERVICE_PORT

if TYPE_CHECKING:
    from gpuloom.cli.asking.recorded import Numbered

_SELECTOR = f"{SERVICE_LABEL}=true"
FORBIDDEN = 403
_ADVICE = (
    "ask an administrator for it, or for the rights to list Services and to get services/proxy, "
    "through which the scheduler answers"
)
TOKEN_VARIABLE = "GPULOOM_TOKEN"  # noqa: S105 - the variable's name


@asynccontextmanager
async def open_cluster(flags: ClusterFlags) -> AsyncIterator[tuple[KubeClient, str]]:
    """Give a client of the cluster and the namespace that counts where none is named.

    Raises CommandError in one line.
    """
    try:
        credentials = load_default(flags.kubeconfig or None, flags.context or None)
        async with KubeClient(credentials) as client:
            yield client, credentials.namespace
    except (CredentialsError, ApiError) as error:
        raise CommandError(str(error).partition("\n")[0]) from error


@asynccontextmanager
async def open_reader(flags: SourceFlags) -> AsyncIterator[Reader]:
    """Find who answers.

    Raises CommandError in one line.
    """
    if flags.snapshot and flags.server:
        raise CommandError("--from and --server exclude each other")
    if flags.snapshot:
        from gpuloom.cli.asking.recorded import RecordedReader, read_file  # noqa: PLC0415 - it loads the scheduler

        yield RecordedReader(flags.snapshot, read_file(flags.snapshot), is_file=True)
    elif flags.server:
        async with _open_server(flags) as reader:
            yield reader
    else:
        async with open_cluster(flags) as (client, namespace):
            yield await _find_behind(client, namespace)


@asynccontextmanager
async def _open_server(flags: SourceFlags) -> AsyncIterator[Reader]:
    token, namespace = os.environ.get(TOKEN_VARIABLE, ""), "default"
    if not token:
        async with open_cluster(flags) as (cluster, namespace):
            token = await cluster.token()
    if not token:
        raise CommandError(
            f"the kubeconfig has no token for {flags.server}: set {TOKEN_VARIABLE}, "
            "for example to the output of kubectl create token"
        )
    try:
        ca_pem = flags.server_ca.read_bytes() if flags.server_ca else b""
        credentials = Credentials.for_token(flags.server.rstrip("/"), token, ca_pem=ca_pem)
    except OSError as error:
        raise CommandError(f"--server-ca {flags.server_ca}: {error.strerror}") from error
    except CredentialsError as error:
        raise CommandError(f"--server: {error}") from error
    async with KubeClient(credentials) as client:
        yield ServedReader(client, namespace, f"scheduler at {flags.server}")


async def _find_behind(client: KubeClient, namespace: str) -> Reader:
    """Use the scheduler's pages if the API server leads to them, else its objects."""
    try:
        found = await _find_service(client, namespace)
        if found is not None:
            await found.check()
            return found
        reason = f"no Service is labelled {_SELECTOR}"
    except NoWayError as error:
        reason = str(error)
    try:
        reader = await _read_objects(client, namespace)
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        raise CommandError(f"{error}; {_ADVICE}") from error
    sys.stderr.write(f"gpuloom: answered from the API server's objects, not by the scheduler: {reason}\n")
    return reader


async def _find_service(client: KubeClient, namespace: str) -> ServedReader | None:
    if not (token := await client.token()):
        raise NoWayError("the kubeconfig has a client certificate and no token to show to the scheduler")
    try:
        services, _ = await client.list_all(SERVICES, label_selector=_SELECTOR)
    except ApiError as error:
        raise NoWayError(str(error)) from error
    if not services:
        return None
    service = min(services, key=lambda one: (one.namespace, one.name))
    path = f"/api/v1/namespaces/{service.namespace}/services/https:{service.name}:{SERVICE_PORT}/proxy"
    place = f"Service {service.namespace}/{service.name}"
    return ServedReader(client, namespace, place, prefix=path, token=token)


async def _read_objects(client: KubeClient, namespace: str) -> Reader:
    from gpuloom.cli.asking.recorded import RecordedReader  # noqa: PLC0415 - it loads the scheduler
    from gpuloom.scheduler.recording.snapshot import take_snapshot  # noqa: PLC0415 - it loads the scheduler
    from gpuloom.scheduler.settings import SchedulerSettings  # noqa: PLC0415 - it loads the scheduler

    with show_work("reading nodes, quotas and pods"):
        lines = list(await take_snapshot(client, SchedulerSettings()))
    return RecordedReader("the cluster", _number(lines), namespace=namespace)


def _number(lines: list[dict[str, object]]) -> "Iterator[Numbered]":
    from gpuloom.scheduler.recording.lines import decode_line  # noqa: PLC0415 - it loads the scheduler

    for number, line in enumerate(lines, 1):
        yield number, decode_line(msgspec.json.encode(line))
