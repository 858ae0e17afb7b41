"""The table of commands. It names their modules as text, so that a command's imports happen only when it runs."""

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuloom import __version__
from gpuloom.cli.examples import EXIT_CODES, write_epilogue
from gpuloom.cli.misuse import tell_unknown, tell_unused
from gpuloom.cli.outcomes import CommandError, ExitCode, first_line
from gpuloom.cli.plain import plain_lines

if TYPE_CHECKING:
    from cyclopts import App

PLUGIN = "kubectl-gpuloom"
"""Name under which kubectl finds this program as its plugin."""

PEOPLE, CHANGES, PROCESSES, TOOLS = GROUPS = ("Questions", "Changes", "Processes", "Tools")

COMMANDS: tuple[tuple[str, str, str, str], ...] = (
    ("top", "asking.top:show_top", PEOPLE, "Show how much of the cards is given away, and really used."),
    ("nodes", "asking.lists:list_nodes", PEOPLE, "List nodes; of one node, its cards and who is on them."),
    ("cards", "asking.lists:list_cards", PEOPLE, "List cards; of one card, who is on it."),
    ("pods", "asking.lists:list_pods", PEOPLE, "List the pods that have cards."),
    ("pending", "asking.lists:list_pending", PEOPLE, "List the pods that wait for cards, and why."),
    ("quota", "asking.lists:list_quotas", PEOPLE, "List what namespaces hold and may hold."),
    ("workload", "asking.lists:list_workload", PEOPLE, "List the pods that the policy fragmentation expects."),
    ("explain", "asking.explain:explain_pod", PEOPLE, "Tell why a pod goes where it goes, or nowhere."),
    ("fits", "asking.fits:check_fit", PEOPLE, "Tell whether a pod would fit, where, and how many of them."),
    ("preempt", "asking.preempt:plan_preemption", PEOPLE, "Tell whom preemption would evict for a pod."),
    (
        "defrag",
        "defragmenting.command:run_defrag",
        CHANGES,
        "Tell which few pods would have to move so that one fits; move them.",
    ),
    ("cordon", "cordon:cordon_card", CHANGES, "Close a card to new pods."),
    ("uncordon", "cordon:uncordon_card", CHANGES, "Open a card to new pods again."),
    ("drain-card", "draining.command:drain_card", CHANGES, "Close a card and evict its pods."),
    ("scheduler", "scheduler:run_scheduler", PROCESSES, "Serve webhook, filter and bind to kube-scheduler."),
    (
        "device-plugin",
        "device_plugin:run_device_plugin_command",
        PROCESSES,
        "Offer this node's cards to its kubelet, in shares.",
    ),
    (
        "monitor",
        "monitor:run_monitor",
        PROCESSES,
        "Tell Prometheus who uses this node's cards; keep priorities and promises.",
    ),
    ("doctor", "doctor:run_doctor", TOOLS, "Find what makes an installation fail."),
    ("selftest", "selftest:run_selftest", TOOLS, "Hold gpuloom against the driver and the cards of this machine."),
    ("vendors", "vendors:vendors_app", TOOLS, "List the accelerator families that are served, or check a profile."),
    ("snapshot", "snapshot:run_snapshot", TOOLS, "Print a live cluster as a recording."),
    ("replay", "replay:run_replay", TOOLS, "Play a recording: answers, check or explanation."),
    (
        "simulate",
        "simulating.command:run_simulate",
        TOOLS,
        "Let pods arrive at a cluster in files: how well policies pack them.",
    ),
    ("demo", "demo:run_demo", TOOLS, "Show a small cluster with simulated cards at work."),
    ("bench", "bench:run_bench", TOOLS, "Measure how fast gpuloom schedules (in a checkout)."),
    ("completion", "completion:print_completion", TOOLS, "Print a script that completes command lines in a shell."),
    ("version", "version:print_version", TOOLS, "Print the version."),
)
"""Name, module and function in this package, group, and one line for the overview."""


_OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Imports, and whatever is read at the start, make very many objects, of which none is garbage."""


def main() -> None:
    """Run the command line of this process and exit."""
    _open_missing_streams()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    # NumPy's library for matrices, of which there are none here, starts threads that are busy for a while.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # gRPC's care for forks lets programs that are started while it works crash before they begin.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    code = run(sys.argv[1:])
    # At its end Python would look for garbage among all that was imported: a tenth of a short command's time.
    gc.freeze()
    sys.exit(code)


def _open_missing_streams() -> None:
    """Open what a shell closed (``>&-``): otherwise the next file or connection would take its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for as long as this process lives


def run(tokens: Sequence[str]) -> ExitCode:
    """Run one command line and say how it ended; errors stand on stderr, one line each."""
    try:
        return _run(tokens)
    except KeyboardInterrupt:
        return ExitCode.STOPPED


def _run(tokens: Sequence[str]) -> ExitCode:
    if tokens and (told := tell_unknown(tokens[0], [name for name, *_ in COMMANDS])):
        sys.stderr.write(f"gpuloom: {told}\n")
        return ExitCode.USAGE
    from cyclopts import CycloptsError, UnusedCliTokensError  # noqa: PLC0415 - a mistyped command needs none of it

    try:
        result = build_app()(list(tokens), exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
        return result if isinstance(result, ExitCode) else ExitCode.YES
    except UnusedCliTokensError as error:
        told, code = tell_unused(tokens[0], error.unused_tokens or ()), ExitCode.USAGE
    except CycloptsError as error:
        told, code = f"{' '.join(str(error).split())} See --help.", ExitCode.USAGE
    except CommandError as error:
        told, code = plain_lines(str(error)), error.code
    except (BrokenPipeError, SystemExit):  # the second is what Rich makes of the first
        # Whoever read our answer has enough. Nothing may be flushed to them at the end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.UNREAD
    except OSError as error:
        told, code = plain_lines(first_line(error)), ExitCode.NO
    sys.stderr.write(f"gpuloom: {told}\n")
    return code


def build_app() -> "App":
    """Make the command line."""
    from cyclopts import App, Group, Parameter  # noqa: PLC0415 - see above

    groups = {title: Group.create_ordered(title) for title in GROUPS}
    app = App(
        name="kubectl gpuloom" if Path(sys.argv[0]).name == PLUGIN else "gpuloom",
        help="Share and schedule GPUs on Kubernetes, wire-compatible with HAMi.",
        version=__version__,
        help_epilogue=EXIT_CODES,
        # As with kubectl the last of several counts: extraArgs of the chart come behind its own.
        default_parameter=Parameter(show_default=_tell_default, allow_repeating=True),
        suppress_keyboard_interrupt=False,  # it would end the process by itself
    )
    for name, target, group, text in COMMANDS:
        # Several commands under one name are an App of their own, which has its epilogue.
        own = {} if target.endswith("_app") else {"help_epilogue": write_epilogue(name)}
        app.command(f"gpuloom.cli.{target}", name=name, group=groups[group], help=text, **own)
    return app


def _tell_default(value: object) -> str | None:
    """Write a flag's default as one would type it; what is empty is none."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if value in ("", None, ()) else str(value)
