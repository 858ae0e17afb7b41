"""``gpuloom doctor``: find what makes an installation fail, on a node and in a cluster."""

import logging
import os
import platform
from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import Parameter

from gpuloom.cli.device_plugin import open_cards
from gpuloom.cli.device_plugin_flags import DevicePluginFlags, make_settings
from gpuloom.cli.doctor_report import print_report
from gpuloom.cli.logs import configure_logs
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.cli.process import run_until_signal
from gpuloom.doctor.checks import run_checks
from gpuloom.doctor.findings import Finding
from gpuloom.doctor.machine.catalogue import MACHINE_CHECKS
from gpuloom.doctor.machine.collection import Configuration, collect_machine
from gpuloom.node.errors import ConfigurationError, NodeError


def run_doctor(
    *,
    json: Annotated[bool, Parameter(negative=())] = False,
    output: Annotated[Literal["table", "json"], Parameter(name=["--output", "-o"])] = "table",
    node_name: Annotated[str, Parameter(env_var=["NODE_NAME", "NodeName"])] = "",
    cards: str = "",
    flags: DevicePluginFlags = DevicePluginFlags(),  # noqa: B008 - frozen
) -> ExitCode:
    """Find what makes an installation fail; nothing is changed.

    Exit code 0 if nothing is wrong, 1 if something is. What could not be looked at is told, and is not wrong.

    Parameters
    ----------
    json:
        Print JSON, as -o json.
    output:
        Form of the findings.
    node_name:
        Name of this node in the cluster.
    cards:
        Simulated cards, if the device plugin has them (see gpuloom device-plugin --help).

    """
    configure_logs("console", level=logging.CRITICAL)
    found: list[Finding] = []

    async def examine() -> None:
        found.extend(await _examine_machine(node_name, cards, flags))

    run_until_signal(examine(), failures=(NodeError,))
    print_report(found, as_json=json or output == "json")
    return ExitCode.NO if any(finding.is_bad for finding in found) else ExitCode.YES


async def _examine_machine(node_name: str, cards: str, flags: DevicePluginFlags) -> Sequence[Finding]:
    try:
        settings = make_settings(node_name, flags, os.environ)
    except ConfigurationError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    configuration = Configuration(settings, flags.place.config_file, flags.place.node_config_file)
    async with open_cards(node_name, cards) as nvml:
        facts = await collect_machine(configuration, nvml, is_simulated=bool(cards))
    return run_checks(MACHINE_CHECKS, facts, f"node {node_name or platform.node()}")
