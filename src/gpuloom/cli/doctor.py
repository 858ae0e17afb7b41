"""``gpuloom doctor``: find what makes an installation fail, on a node and in a cluster."""

import logging
import os
import platform
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpuloom.cli.asking.flags import AnswerOutput, ClusterFlags, OutputFlags
from gpuloom.cli.device_plugin import open_cards
from gpuloom.cli.device_plugin_flags import DevicePluginFlags, make_settings
from gpuloom.cli.doctor_flags import MachineFlags, adopt_flags
from gpuloom.cli.doctor_report import print_report
from gpuloom.cli.logs import configure_logs
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.cli.process import run_to_end
from gpuloom.doctor.checks import run_checks
from gpuloom.doctor.cluster.catalogue import CLUSTER_CHECKS
from gpuloom.doctor.cluster.collection import collect_cluster
from gpuloom.doctor.findings import Finding
from gpuloom.doctor.machine.catalogue import MACHINE_CHECKS
from gpuloom.doctor.machine.collection import Configuration, collect_machine, looks_like_node
from gpuloom.kube import KubeClient, load_default
from gpuloom.node.errors import ConfigurationError, NodeError
from gpuloom.node.nvml import Nvml
from gpuloom.node.settings import NodeSettings
from gpuloom.node.simulated import SimulatedMachine, parse_machine


def run_doctor(
    *,
    node: Annotated[bool, Parameter(negative=())] = False,
    cluster: Annotated[bool, Parameter(negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
    output: Annotated[AnswerOutput, Parameter(name=["--output", "-o"])] = "table",
    node_name: Annotated[str, Parameter(env_var=["NODE_NAME", "NodeName"])] = "",
    cards: str = "",
    place: ClusterFlags = ClusterFlags(),  # noqa: B008 - frozen
    flags: DevicePluginFlags = DevicePluginFlags(),  # noqa: B008 - frozen
) -> ExitCode:
    """Find what makes an installation fail; nothing is changed.

    Exit code 0 if nothing is wrong, 1 if something is, 3 if the cluster cannot be reached. What could not be looked at
    is told, and is not wrong. Without --node and --cluster it looks at this machine if a kubelet works on it, and else
    at the cluster.

    Parameters
    ----------
    node:
        Look at this machine, with the device plugin's flags: those given, else those of the one that runs here.
    cluster:
        Look at the cluster.
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
    told = adopt_flags(MachineFlags(node_name, cards, flags))
    settings = _make_settings(told)
    if not node and not cluster:
        node = looks_like_node(settings)
        cluster = not node
    found: list[Finding] = []

    async def examine() -> None:
        if node:
            found.extend(await _examine_machine(settings, told))
        if cluster:
            found.extend(await _examine_cluster(place))

    form = OutputFlags(output="json" if json else output)
    try:
        run_to_end(examine(), failures=(NodeError,))
    except CommandError:
        # What was found before the cluster did not answer counts all the same.
        if found:
            print_report(found, form)
        raise
    print_report(found, form)
    return ExitCode.NO if any(finding.is_bad for finding in found) else ExitCode.YES


def _make_settings(told: MachineFlags) -> NodeSettings:
    try:
        return make_settings(told.node_name, told.flags, os.environ)
    except ConfigurationError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error


async def _examine_machine(settings: NodeSettings, told: MachineFlags) -> Sequence[Finding]:
    place = told.flags.place
    configuration = Configuration(settings, place.config_file, place.node_config_file)
    async with _open_cards(settings.node_name, told.cards) as nvml:
        facts = await collect_machine(configuration, nvml, is_simulated=bool(told.cards))
    return run_checks(MACHINE_CHECKS, facts, f"node {settings.node_name or platform.node()}")


def _open_cards(node_name: str, cards: str | Path) -> AbstractAsyncContextManager[Nvml]:
    if isinstance(cards, Path):
        return nullcontext(SimulatedMachine(node_name, parse_machine(cards.read_bytes(), source=str(cards))))
    return open_cards(node_name, cards)


async def _examine_cluster(place: ClusterFlags) -> Sequence[Finding]:
    credentials = load_default(place.kubeconfig or None, place.context or None)
    async with KubeClient(credentials) as client:
        facts = await collect_cluster(client, credentials.namespace)
    return run_checks(CLUSTER_CHECKS, facts, f"cluster {credentials.server}")
