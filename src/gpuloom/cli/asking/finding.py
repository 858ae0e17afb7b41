"""Who answers: the scheduler that is named, one behind the API server, the API server's own objects, or a recording."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from gpuloom.cli.asking.flags import SourceFlags
from gpuloom.cli.asking.progress import show_work
from gpuloom.cli.asking.reader import Reader
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.client.clusters import open_cluster
from gpuloom.client.errors import NoWayError
from gpuloom.client.finding import find_behind, open_scheduler
from gpuloom.client.installation import WebService, read_service_flag
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

    Raises CommandError or AskingError in one line.
    """
    if flags.snapshot and flags.server:
        raise CommandError("--from and --server exclude each other", ExitCode.USAGE)
    if flags.snapshot:
        from gpuloom.cli.asking.recorded import RecordedReader, read_file  # noqa: PLC0415 - it loads the scheduler
        from gpuloom.cli.logs import configure_quiet  # noqa: PLC0415 - as above

        configure_quiet()
        yield RecordedReader(flags.snapshot, read_file(flags.snapshot), is_file=True)
    elif flags.server:
        async with open_scheduler(flags.way) as reader:
            yield reader
    else:
        named = read_service_flag(flags.service)
        async with open_cluster(flags.way) as (client, namespace):
            yield await _find_behind(client, namespace, named)


async def _find_behind(client: KubeClient, namespace: str, named: WebService | None) -> Reader:
    """Use the scheduler's pages if the API server leads to them, else its objects."""
    try:
        return await find_behind(client, namespace, named)
    except NoWayError as error:
        reason = str(error)
    try:
        reader = await read_objects(client, namespace)
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        raise CommandError(f"{error}; {_ADVICE}", ExitCode.UNKNOWN) from error
    sys.stderr.write(f"gpuloom: answered from the API server's objects, not by the scheduler: {reason}\n")
    return reader


async def read_objects(client: KubeClient, namespace: str) -> "RecordedReader":
    """Answer from what the API server shows, without the scheduler.

    Raises ApiError.
    """
    from gpuloom.cli.asking.recorded import RecordedReader  # noqa: PLC0415 - it loads the scheduler
    from gpuloom.cli.logs import configure_quiet  # noqa: PLC0415 - as above
    from gpuloom.scheduler.recording.snapshot import take_snapshot  # noqa: PLC0415 - it loads the scheduler
    from gpuloom.scheduler.settings import SchedulerSettings  # noqa: PLC0415 - it loads the scheduler

    configure_quiet()
    with show_work("reading nodes, quotas and pods"):
        lines = list(await take_snapshot(client, SchedulerSettings()))
    return RecordedReader("the cluster", _number(lines), namespace=namespace)


def _number(lines: list[dict[str, object]]) -> "Iterator[Numbered]":
    from gpuloom.scheduler.recording.lines import decode_line  # noqa: PLC0415 - it loads the scheduler

    for number, line in enumerate(lines, 1):
        yield number, decode_line(msgspec.json.encode(line))
