"""``gpuloom device-plugin`` as a process."""

import asyncio
import sys
from contextlib import asynccontextmanager

import pytest
from local.node.conftest import RESOURCE, wait_until

from gpuloom.local.apiserver import InjectedFault, LocalApiServer
from gpuloom.local.kubelet import SimulatedKubelet

FAILING = InjectedFault("GET", "/nodes/n1", times=1_000_000, status=503)


@pytest.fixture
async def kubelet(local_client, settings):
    async with SimulatedKubelet("n1", local_client, settings.plugins_dir) as kubelet:
        yield kubelet


@asynccontextmanager
async def running(server: LocalApiServer, settings, node_name="n1"):
    """The process, whose errors can be read."""
    server.write_kubeconfig(settings.host_root / "kubeconfig")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gpuloom.cli", "device-plugin", "--cards=two-t4", f"--node-name={node_name}"),
        *(f"--kubeconfig={settings.host_root / 'kubeconfig'}", f"--host-root={settings.host_root}"),
        f"--kubelet-socket={settings.kubelet_socket}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(60):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_cards_are_offered_although_the_api_server_does_not_answer(kubelet, local_server, settings):
    """A plugin that starts anew meanwhile: the kubelet asks for devices of pods that it knows."""
    local_server.faults.add(FAILING)

    async def are_offered() -> bool:
        return bool(kubelet.allocatable.get(RESOURCE) == 20)

    async with running(local_server, settings):
        await wait_until(are_offered)


async def test_a_name_of_no_node_is_told_at_the_start(local_server, settings):
    async with running(local_server, settings, "n9") as process:
        _, said = await process.communicate()
    assert "give this node's name with --node-name or NODE_NAME" in said.decode()
