import asyncio
import os
import signal
import socket
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from gpuloom.kube.client import KubeClient
from gpuloom.kube.credentials import load_kubeconfig
from gpuloom.kube.recorder import EventRecorder
from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import LocalApiServer
from gpuloom.local.kubelet import SimulatedKubelet
from gpuloom.local.manifests import pod_manifest
from gpuloom.local.queue import ExtenderClient, PodQueue
from gpuloom.local.waiting import Key, wait_until
from gpuloom.wire.keys import NODE_REGISTER
from gpuloom.wire.objects import Node, Pod

TIMEOUT_S = 60.0


@pytest.fixture
def directory() -> Iterator[Path]:
    # Sockets lie below it, so its path must be short.
    with tempfile.TemporaryDirectory(prefix="gl-") as name:
        yield Path(name)


@pytest.fixture
async def client(directory: Path) -> AsyncIterator[KubeClient]:
    async with LocalApiServer() as server:
        server.write_kubeconfig(directory / "kubeconfig")
        async with KubeClient(load_kubeconfig(directory / "kubeconfig")) as client:
            await client.create(NODES, {"metadata": {"name": "n1"}})
            yield client


@asynccontextmanager
async def gpuloom(*tokens: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gpuloom.cli", *tokens, stdout=PIPE, stderr=PIPE, env={**os.environ, "KUBECONFIG": ""}
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def start_scheduler(stack: AsyncExitStack, directory: Path) -> tuple[Process, str]:
    kubeconfig = str(directory / "kubeconfig")
    process = await stack.enter_async_context(
        gpuloom("scheduler", "--http_bind", "127.0.0.1:0", "--kubeconfig", kubeconfig)
    )
    assert process.stdout is not None
    return process, (await process.stdout.readline()).decode().strip()


async def start_node(stack: AsyncExitStack, directory: Path, client: KubeClient) -> Process:
    plugins_dir = directory / "dp"
    plugins_dir.mkdir()
    library = directory / "usr/local/vgpu/libvgpu.so"
    library.parent.mkdir(parents=True)
    library.touch()
    await stack.enter_async_context(SimulatedKubelet("n1", client, plugins_dir))
    flags = {
        "--node-name": "n1",
        "--cards": "two-t4",
        "--kubeconfig": str(directory / "kubeconfig"),
        "--kubelet-socket": str(plugins_dir / "kubelet.sock"),
        "--host-root": str(directory),
    }
    return await stack.enter_async_context(
        gpuloom("device-plugin", *(token for flag in flags.items() for token in flag))
    )


async def start_queue(stack: AsyncExitStack, client: KubeClient, url: str) -> None:
    recorder = await stack.enter_async_context(EventRecorder(client, "hami-scheduler"))
    extender = await stack.enter_async_context(ExtenderClient(url))
    await stack.enter_async_context(PodQueue(client, extender, recorder, "hami-scheduler", backoff_initial_s=0.1))


async def run_pod(client: KubeClient) -> Pod:
    manifest = pod_manifest("a", memory_mib=3000)
    manifest["spec"]["schedulerName"] = "hami-scheduler"
    await client.create(PODS, manifest, namespace="default")

    def runs(pods: Mapping[Key, Pod]) -> bool:
        return any(pod.status.phase == "Running" for pod in pods.values())

    pods = await wait_until(client, PODS, runs, timeout_s=TIMEOUT_S)
    return pods["default", "a"]


async def stop(process: Process) -> int:
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(TIMEOUT_S):
        return await process.wait()


async def test_scheduler_and_device_plugin_work_as_processes(client: KubeClient, directory: Path) -> None:
    async with AsyncExitStack() as stack:
        _, url = await start_scheduler(stack, directory)
        await start_node(stack, directory, client)
        await start_queue(stack, client, url)
        assert (await run_pod(client)).spec.node_name == "n1"


async def test_a_device_plugin_registers_the_cards_of_its_machine(client: KubeClient, directory: Path) -> None:
    def is_registered(nodes: Mapping[Key, Node]) -> bool:
        return "Tesla T4" in nodes["", "n1"].annotations.get(NODE_REGISTER, "")

    async with AsyncExitStack() as stack:
        await start_node(stack, directory, client)
        assert await wait_until(client, NODES, is_registered, timeout_s=TIMEOUT_S)


async def test_a_scheduler_ends_well_on_sigterm(client: KubeClient, directory: Path) -> None:
    async with AsyncExitStack() as stack:
        process, _ = await start_scheduler(stack, directory)
        assert await stop(process) == 0


async def test_a_device_plugin_ends_well_on_sigterm(client: KubeClient, directory: Path) -> None:
    async with AsyncExitStack() as stack:
        process = await start_node(stack, directory, client)
        assert process.stderr is not None
        await process.stderr.readline()
        assert await stop(process) == 0


async def test_a_scheduler_whose_port_is_taken_says_so_in_one_line(client: KubeClient, directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with gpuloom(
            "scheduler", "--http_bind", address, "--kubeconfig", str(directory / "kubeconfig")
        ) as process:
            _, errors = await process.communicate()
    lines = errors.decode().splitlines()
    assert (process.returncode, len(lines), address in lines[0]) == (1, 1, True)


async def test_a_device_plugin_of_an_unknown_node_says_which_flag_to_mend(client: KubeClient, directory: Path) -> None:
    kubeconfig = str(directory / "kubeconfig")
    async with gpuloom(
        "device-plugin", "--node-name", "nobody", "--cards", "two-t4", "--kubeconfig", kubeconfig
    ) as process:
        _, errors = await process.communicate()
    assert (process.returncode, "--node-name" in errors.decode()) == (1, True)
