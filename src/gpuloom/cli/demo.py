"""``gpuloom demo``: a small cluster with simulated cards, at work before your eyes."""

import logging
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console

from gpuloom.cli.logs import configure_logs
from gpuloom.cli.outcomes import CommandError
from gpuloom.cli.ownvendors import check_beside_shipped, read_own
from gpuloom.cli.process import run_until_signal
from gpuloom.local.cluster import LocalClusterError
from gpuloom.local.demo import STORIES, DemoError, StoryName, perform_live, perform_once
from gpuloom.node.errors import NodeError
from gpuloom.serving.addresses import CannotServeError
from gpuloom.vendors.catalog import default_profiles
from gpuloom.vendors.profile import ProfileError

_PLAIN_WIDTH = 140


def run_demo(
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 0,
    once: bool = False,
    story: StoryName = "sharing",
    vendor_dir: Path | None = None,
) -> None:
    """Show a small cluster with simulated cards at work, until Ctrl-C.

    API server, scheduler, device plugins and kubelets run inside this process; a real kubectl works with the
    kubeconfig that is printed. Nothing stays behind.

    Parameters
    ----------
    port:
        Port of the API server on the loopback interface, 0 for a free one.
    once:
        Play the story as fast as the cluster settles, check and print each scene, and end: 0 if all is right, 1 if not.
    story:
        What happens in the cluster: pods share cards, or room is made by preemption and by moving pods.
    vendor_dir:
        Folder with profiles of more vendors (*.toml); the cluster gets a node with two cards of each.

    """
    try:
        own = read_own(vendor_dir)
        check_beside_shipped(own)
    except ProfileError as error:
        raise CommandError(str(error)) from error
    configure_logs("console", level=logging.ERROR)
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PLAIN_WIDTH)
    perform = perform_once if once else perform_live
    failures = (DemoError, LocalClusterError, NodeError, CannotServeError)
    run_until_signal(perform(console, STORIES[story](default_profiles(own)), port=port), failures=failures)
