"""The device plugin as a process runs it."""

import asyncio
from collections.abc import Callable

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.node.agent import NodeAgent
from gpuloom.node.errors import NodeError
from gpuloom.node.nvml import Nvml
from gpuloom.node.settings import NodeSettings

_log = structlog.get_logger(__name__)


async def run_device_plugin(settings: NodeSettings, client: KubeClient, nvml: Nvml) -> None:
    """Serve the node's kubelet until cancelled.

    Raises NodeError when it cannot start at all, and any error that it cannot repair.
    """
    async with NodeAgent(settings, client, nvml) as agent:
        await agent.run()


async def run_reloadable(
    settings: NodeSettings, load: Callable[[], NodeSettings], client: KubeClient, nvml: Nvml, reload: asyncio.Event
) -> None:
    """Serve the node's kubelet until cancelled, and start again with what `load` gives whenever `reload` is set.

    Settings that cannot be used are logged, and the plugin keeps the old ones. Raises NodeError as
    :func:`run_device_plugin` does.
    """
    while True:
        serving = asyncio.create_task(run_device_plugin(settings, client, nvml))
        try:
            settings = await _wait_for_reload(load, serving, reload)
        finally:
            serving.cancel()
            await asyncio.wait({serving})


async def _wait_for_reload(
    load: Callable[[], NodeSettings], serving: asyncio.Task[None], reload: asyncio.Event
) -> NodeSettings:
    """Return the settings of the next start."""
    while True:
        asked = asyncio.create_task(reload.wait())
        try:
            await asyncio.wait({serving, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
        if serving.done():
            serving.result()
        reload.clear()
        try:
            settings = load()
        except NodeError as error:
            _log.error("configuration cannot be used, going on with the last one", error=str(error))
        else:
            _log.info("configuration is read again, starting again", node=settings.node_name)
            return settings
