"""How a command that asks runs: to its end, every failure one line and an exit code."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from gpuloom.cli.asking.finding import open_reader
from gpuloom.cli.asking.flags import NamespaceFlags, SourceFlags
from gpuloom.cli.asking.reader import Reader
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.cli.process import run_to_end
from gpuloom.client.errors import AskingError, DeclinedError, MisusedError
from gpuloom.client.names import drop_kind

_NODE = frozenset({"node", "nodes", "no"})
_POD = frozenset({"pod", "pods", "po"})

Question = Callable[[Reader], Awaitable[None]]


def ask(flags: SourceFlags, question: Question) -> None:
    """Find who answers and ask.

    Raises CommandError, KeyboardInterrupt when a signal came before the answer.
    """

    async def run() -> None:
        async with open_reader(flags) as reader:
            await question(reader)

    run_to_end(_tell_failure(run()), is_short=True)


def run_for_people(work: Coroutine[Any, Any, None]) -> None:
    """Run a short command that says itself what is wrong, with code that logs.

    Raises CommandError, KeyboardInterrupt when a signal came before the end.
    """
    from gpuloom.cli.logs import configure_quiet  # noqa: PLC0415 - logging takes long to load

    configure_quiet()
    run_to_end(_tell_failure(work))


async def _tell_failure(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except MisusedError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    except DeclinedError as error:
        raise CommandError(str(error), ExitCode.NO) from error
    except AskingError as error:
        raise CommandError(str(error), ExitCode.UNKNOWN) from error


def choose_namespace(flags: NamespaceFlags, reader: Reader) -> str:
    """Return the namespace that is meant, nothing for all."""
    if flags.all_namespaces:
        return ""
    return flags.namespace or reader.namespace


def choose_node(text: str) -> str:
    """Read ``NODE`` or ``node/NODE``.

    Raises CommandError.
    """
    name = drop_kind(text, _NODE)
    if "/" in name:
        raise CommandError(f"{text!r} is no node: give NODE or node/NODE; gpuloom nodes shows them", ExitCode.USAGE)
    return name


def choose_pod(text: str, namespace: str) -> tuple[str, str]:
    """Read ``POD``, ``pod/POD`` or ``NAMESPACE/POD``; ``namespace`` counts where none is named.

    Raises CommandError.
    """
    kind, separator, name = text.rpartition("/")
    if not name or "/" in kind:
        raise CommandError(f"{text!r} is no pod: give POD, pod/POD or NAMESPACE/POD", ExitCode.USAGE)
    return (kind if separator and kind not in _POD else namespace), name
