"""The device plugin as a process runs it."""

from gpuloom.kube.client import KubeClient
from gpuloom.node.agent import NodeAgent
from gpuloom.node.nvml import Nvml
from gpuloom.node.settings import NodeSettings


async def run_device_plugin(settings: NodeSettings, client: KubeClient, nvml: Nvml) -> None:
    """Serve the node's kubelet until cancelled.

    Raises NodeError when it cannot start at all, and whatever ends it for a reason that it cannot mend.
    """
    async with NodeAgent(settings, client, nvml) as agent:
        await agent.run()
