"""The table of commands. It names their modules as text, so that a command's imports happen only when it runs."""

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from gpuloom import __version__
from gpuloom.cli.outcomes import CommandError, ExitCode


def main() -> None:
    """Run the command line of this process and exit."""
    sys.exit(run(sys.argv[1:]))


def run(tokens: Sequence[str]) -> ExitCode:
    """Run one command line and say how it ended; errors stand on stderr, one line each."""
    try:
        result = build_app()(list(tokens), exit_on_error=False, result_action="return_value")
    except CycloptsError:
        return ExitCode.USAGE
    except CommandError as error:
        sys.stderr.write(f"gpuloom: {error}\n")
        return error.code
    return result if isinstance(result, ExitCode) else ExitCode.YES


def build_app() -> App:
    """Make the command line."""
    app = App(
        name="gpuloom",
        help="Share and schedule GPUs on Kubernetes, wire-compatible with HAMi.",
        version=__version__,
        help_epilogue="Exit codes: 0 yes, 1 no, 2 wrong usage, 3 the cluster cannot be reached.",
    )
    app.command(
        "gpuloom.cli.scheduler:run_scheduler",
        name="scheduler",
        help="Serve webhook, filter and bind to kube-scheduler.",
    )
    app.command(
        "gpuloom.cli.device_plugin:run_device_plugin_command",
        name="device-plugin",
        help="Offer this node's cards to its kubelet, in shares.",
    )
    app.command("gpuloom.cli.replay:run_replay", name="replay", help="Play a recording: answers, check or explanation.")
    app.command(
        "gpuloom.cli.monitor:run_monitor",
        name="monitor",
        help="Tell Prometheus who uses this node's cards; keep priorities and promises.",
    )
    app.command("gpuloom.cli.doctor:run_doctor", name="doctor", help="Find what makes an installation fail.")
    app.command("gpuloom.cli.snapshot:run_snapshot", name="snapshot", help="Print a live cluster as a recording.")
    app.command("gpuloom.cli.demo:run_demo", name="demo", help="Show a small cluster with simulated cards at work.")
    app.command("gpuloom.cli.bench:run_bench", name="bench", help="Measure how fast gpuloom schedules (in a checkout).")
    app.command("gpuloom.cli.version:print_version", name="version", help="Print the version.")
    return app
