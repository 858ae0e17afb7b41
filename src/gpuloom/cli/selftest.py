"""``gpuloom selftest``: hold gpuloom against the driver and the cards of this machine, without a cluster."""

import logging
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pynvml
from cyclopts import Parameter, validators
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuloom.cli.asking.flags import AnswerOutput
from gpuloom.cli.asking.printing import has_colours, print_value
from gpuloom.cli.logs import configure_logs
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.cli.process import run_until_signal
from gpuloom.engine.explanation.counting import tell_count
from gpuloom.local.selftest import AUTO, CORES_MEASURED_S, OFF, Outcome, SelfTest, SelfTestReport
from gpuloom.node.errors import DriverMissingError, NodeError
from gpuloom.node.nvidia import DriverNvml

_STYLES = {Outcome.PASSED: "green", Outcome.FAILED: "bold red", Outcome.SKIPPED: "dim"}
_PLAIN_WIDTH = 120


def run_selftest(
    *,
    library: Path | None = None,
    seconds: Annotated[float, Parameter(validator=validators.Number(gte=1, lte=3600))] = CORES_MEASURED_S,
    containerd: str = AUTO,
    allow_mig: Annotated[bool, Parameter(negative=())] = False,
    output: Annotated[AnswerOutput, Parameter(name=["--output", "-o"])] = "table",
) -> ExitCode:
    """Hold gpuloom against the NVIDIA driver and the cards of this machine, which stay as they are.

    A small cluster in this process gives two pods shares of the cards. Programs take memory and compute with what the
    pods were given, and what they see and take is held against it. Exit code 0 if nothing is wrong, 1 if something is,
    3 without an NVIDIA driver.

    Parameters
    ----------
    library:
        HAMi-core's libvgpu.so: programs load it, and must get their share of memory and cores and no more.
    seconds:
        How long the cores of four programs on one card are measured, with a library.
    containerd:
        Run the programs in containers, which find their card by CDI: "auto" where root, containerd and nvidia-ctk are
        there, "off" never, or the socket of a containerd that must do it.
    allow_mig:
        Divide an idle card that can be divided (MIG) for a moment, which resets it, and put it back.
    output:
        Form of the report; JSON can be attached to a bug report.

    """
    if library is not None and not library.is_file():
        raise CommandError(f"--library {library}: there is no such file", ExitCode.USAGE)
    if containerd not in {AUTO, OFF} and not Path(containerd).is_socket():
        raise CommandError(f"--containerd {containerd}: there is no such socket", ExitCode.USAGE)
    configure_logs("console", level=logging.CRITICAL)
    limiter = library.absolute() if library else None

    def make_test(nvml: DriverNvml, directory: Path) -> SelfTest:
        return SelfTest(
            nvml,
            pynvml,
            directory,
            limiter=limiter,
            seconds=seconds,
            containerd=containerd,
            may_divide=allow_mig,
        )

    reports: list[SelfTestReport] = []
    run_until_signal(_test(make_test, reports), failures=(NodeError,))
    if not reports:
        return ExitCode.NO
    (report,) = reports
    if output == "table":
        _print_table(report)
    else:
        print_value(report, output)
    return ExitCode.NO if report.has_failed else ExitCode.YES


async def _test(make_test: Callable[[DriverNvml, Path], SelfTest], reports: list[SelfTestReport]) -> None:
    # Sockets have short paths.
    with tempfile.TemporaryDirectory(prefix="gpuloom-", dir="/tmp") as directory:
        async with DriverNvml(pynvml) as nvml:
            try:
                reports.append(await make_test(nvml, Path(directory)).run())
            except DriverMissingError as error:
                raise CommandError(str(error).partition(";")[0], ExitCode.UNKNOWN) from error


def _print_table(report: SelfTestReport) -> None:
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    console = Console(file=sys.stdout, width=width, highlight=False, no_color=not has_colours())
    console.print(
        f"self-test by gpuloom {report.gpuloom}, driver {report.driver}, nvidia-ml-py {report.python_library}, "
        f"{report.date} UTC"
    )
    for card in report.cards:
        memory = "no memory told" if card.memory_mib is None else f"{card.memory_mib:,} MiB"
        links = "NVLinks unknown" if card.links is None else tell_count(card.links, "NVLink")
        console.print(f"{card.uuid}  {card.name}, {memory}, {card.pci_bus_id}, NUMA {card.numa}, {links}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("STEP", no_wrap=True)
    table.add_column("OUTCOME", no_wrap=True)
    table.add_column("SECONDS", justify="right", no_wrap=True)
    table.add_column("WHAT WAS FOUND", overflow="fold")
    for step in report.steps:
        outcome = Text(step.outcome.value, style=_STYLES[step.outcome])
        table.add_row(step.name, outcome, f"{step.seconds:.1f}", step.text)
    console.print(table)
