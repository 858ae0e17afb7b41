"""Who answers: the scheduler that is named, one behind the API server, the API server's own objects, or a recording."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from gpuloom.cli.asking.clusters import open_cluster
from gpuloom.cli.asking.direct import open_server
from gpuloom.cli.asking.flags import SourceFlags
from gpuloom.cli.asking.installation import WebService, find_installation, read_service_flag
from gpuloom.cli.asking.progress import show_work
from gpuloom.cli.asking.reader import Reader
from gpuloom.cli.asking.served import NoWayError, ServedReader
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.kube import ApiError, KubeClient

if TYPE_CHECKING:
    from gpuloom.cli.asking.recorded import Numbered, RecordedReader

FORBIDDEN = 403
_ADVICE = (
    "ask an administrator for it, or for the right to get services/proxy of the scheduler's Service, "
    "through which the scheduler answers"
)


@asynccontextmanager
async def open_reader(flags: SourceFlags) -> AsyncIterator[Reader]:
    """Find who answers.

    Raises CommandError in one line.
    """
    if flags.snapshot and flags.server:
        raise CommandError("--from and --server exclude each other", ExitCode.USAGE)
    if flags.snapshot:
        from gpuloom.cli.asking.recorded import RecordedReader, read_file  # noqa: PLC0415 - it loads the scheduler

        yield RecordedReader(flags.snapshot, read_file(flags.snapshot), is_file=True)
    elif flags.server:
        async with open_server(flags) as reader:
            yield reader
    else:
        named = read_service_flag(flags.service)
        async with open_cluster(flags) as (client, namespace):
            yield await _find_behind(client, namespace, named)


async def _find_behind(client: KubeClient, namespace: str, named: WebService | None) -> Reader:
    """Use the scheduler's pages if the API server leads to them, else its objects."""
    try:
        found = await _find_service(client, namespace, named)
        await found.check()
    except NoWayError as error:
        reason = str(error)
    else:
        return found
    try:
        reader = await read_objects(client, namespace)
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        raise CommandError(f"{error}; {_ADVICE}", ExitCode.UNKNOWN) from error
    sys.stderr.write(f"gpuloom: answered from the API server's objects, not by the scheduler: {reason}\n")
    return reader


async def _find_service(client: KubeClient, namespace: str, named: WebService | None) -> ServedReader:
    """Give the way to the scheduler's Service, and to no other: it is named by a flag or by the installation."""
    if not (token := await client.token()):
        raise NoWayError(
            "the kubeconfig has no token to show to the scheduler: a client certificate cannot be shown, "
            "and over plain http nothing is"
        )
    service = named or (await find_installation(client)).service
    return ServedReader(client, namespace, f"Service {service}", prefix=service.proxy_path, token=token)


async def read_objects(client: KubeClient, namespace: str) -> "RecordedReader":
    """Answer from what the API server shows, without the scheduler.

    Raises ApiError.
    """
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
