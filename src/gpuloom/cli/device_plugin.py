"""``gpuloom device-plugin``: one node's device plugin as a process; SIGHUP reads the configuration again."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated

import pynvml
import structlog
from cyclopts import Parameter

from gpuloom.cli.device_plugin_flags import DevicePluginFlags, make_settings
from gpuloom.cli.logs import LogForm, configure_logs
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.cli.process import connect, run_until_signal
from gpuloom.cli.simulatedcards import load_cards
from gpuloom.kube import KubeClient
from gpuloom.kube.errors import ApiError, NotFoundError, UntrustedError
from gpuloom.kube.resources import NODES
from gpuloom.node.configuration import configure
from gpuloom.node.errors import ConfigurationError, NodeError
from gpuloom.node.nvidia import DriverNvml
from gpuloom.node.nvml import Nvml
from gpuloom.node.process import run_reloadable
from gpuloom.node.settings import NodeSettings

_log = structlog.get_logger(__name__)


def run_device_plugin_command(
    *,
    node_name: Annotated[str, Parameter(env_var=["NODE_NAME", "NodeName"])],
    cards: str = "",
    kubeconfig: str = "",
    log_format: LogForm = "json",
    flags: DevicePluginFlags = DevicePluginFlags(),  # noqa: B008 - frozen
) -> None:
    """Offer this node's cards to its kubelet, in shares.

    SIGHUP reads the configuration files again.

    Parameters
    ----------
    node_name:
        Name of this node in the cluster.
    cards:
        Simulate these cards instead of asking the NVIDIA driver: the path of a machine description (TOML), or the name
        of one that comes with gpuloom (two-t4, four-l4, eight-a100-40gb, eight-h100-80gb, mixed).
    kubeconfig:
        Kubeconfig file; without it KUBECONFIG, the pod's service account or ~/.kube/config.
    log_format:
        How log lines look.

    """
    configure_logs(log_format)
    run_until_signal(_serve(node_name, flags, cards, kubeconfig), failures=(NodeError,))


async def _serve(node_name: str, flags: DevicePluginFlags, cards: str, kubeconfig: str) -> None:
    load = partial(_load, node_name, flags)
    async with open_cards(node_name, cards) as nvml:
        try:
            settings = load()
        except ConfigurationError as error:
            raise CommandError(str(error), ExitCode.USAGE) from error
        async with connect(kubeconfig) as client:
            await _check_node(client, node_name)
            reload = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload.set)
            await run_reloadable(settings, load, client, nvml, reload)


async def _check_node(client: KubeClient, node_name: str) -> None:
    try:
        await client.get(NODES, node_name)
    except NotFoundError as error:
        raise CommandError(f"{error}; give this node's name with --node-name or NODE_NAME") from error
    except UntrustedError:
        raise
    except ApiError as error:
        if not error.outcome_unknown:
            raise
        # The kubelet can be served meanwhile, and registration tries again.
        _log.warning("node cannot be looked up for now", node=node_name, error=str(error))


def _load(node_name: str, flags: DevicePluginFlags) -> NodeSettings:
    settings = make_settings(node_name, flags, os.environ)
    return configure(settings, flags.place.config_file, flags.place.node_config_file)


@asynccontextmanager
async def open_cards(node_name: str, cards: str) -> AsyncIterator[Nvml]:
    """Open the driver of this machine, or the simulated machine that ``cards`` names.

    Raises CommandError when nobody can read that.
    """
    if cards:
        yield load_cards(node_name, cards)
        return
    async with DriverNvml(pynvml) as driver:
        yield driver
