"""How long Allocate takes from the kubelet's call to the answer, and how much memory the device plugin's process has.

The time is that of the whole gRPC call over the plugin's socket without the time spent waiting for the API server. The
memory is that of a real ``gpuloom device-plugin`` with eight cards after it has served pods. Run it with the project's
Python; it prints JSON.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.kube.credentials import load_kubeconfig
from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import LocalApiServer
from gpuloom.local.kubelet import SimulatedKubelet
from gpuloom.local.waiting import Key, wait_until
from gpuloom.node.allocate import Allocator
from gpuloom.node.api import deviceplugin_pb2 as api
from gpuloom.node.api.deviceplugin_pb2_grpc import DevicePluginStub
from gpuloom.node.health import HealthBook
from gpuloom.node.inventory import CardInventory
from gpuloom.node.plugin import DevicePluginService
from gpuloom.node.server import dial, serve
from gpuloom.node.settings import NodeSettings
from gpuloom.node.simulated import SimulatedMachine, load_machine
from gpuloom.wire.objects import Pod

NODE = "n1"
MACHINE = "eight-a100-40gb"
WARM_UP = 20
CALLS = 300
SERVED_PODS = 80
GOALS = {"p50_ms": 2.0, "rss_mb": 90.0}
TIMEOUT_S = 60.0


class TimedClient(KubeClient):
    """Adds up the time that its callers wait for the API server."""

    waited_s = 0.0

    async def get(self, *args: Any, **options: Any) -> Any:
        """Get as any client."""
        return await self._time(super().get(*args, **options))

    async def patch(self, *args: Any, **options: Any) -> Any:
        """Patch as any client."""
        return await self._time(super().patch(*args, **options))

    async def _time(self, call: Any) -> Any:
        began_s = time.perf_counter()
        try:
            return await call
        finally:
            self.waited_s += time.perf_counter() - began_s


async def bind(client: KubeClient, name: str, card: str) -> None:
    """Do what the scheduler does: create and bind a pod with its share of a card, and lock the node for it."""
    spec = {"schedulerName": "hami-scheduler", "containers": [container()]}
    pod = await client.create(PODS, {"metadata": {"name": name}, "spec": spec}, namespace="default")
    lock = {"hami.io/mutex.lock": f"2026-01-01T00:00:00Z,default,{name}"}
    await client.patch(NODES, NODE, {"metadata": {"annotations": lock}})
    share = f"{card},NVIDIA,1000,10:;"
    annotations = {
        "hami.io/vgpu-node": NODE,
        "hami.io/vgpu-devices-to-allocate": share,
        "hami.io/vgpu-devices-allocated": share,
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": "1767225600",
    }
    await client.bind(
        namespace="default", name=name, uid=pod.metadata.uid, node=NODE, annotations=annotations, labels={}
    )


def container() -> dict[str, Any]:
    """Give a container with one share."""
    return {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}


async def measure_calls(client: TimedClient, settings: NodeSettings) -> list[float]:
    """Call Allocate for one pod after another; returns the times in ms without those of the API server."""
    machine = SimulatedMachine(NODE, load_machine(MACHINE))
    inventory = CardInventory(machine, settings, HealthBook(settings.health))
    (card, *_) = await inventory.refresh()
    allocator = Allocator(settings, client, read_gpus=lambda: inventory.gpus)
    service = DevicePluginService(settings, inventory, allocator, lambda *_: None)
    times_ms = []
    async with serve(service, settings.plugin_socket), dial(settings.plugin_socket) as channel:
        stub = DevicePluginStub(channel)
        request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=[f"{card.id}-0"])])
        for number in range(WARM_UP + CALLS):
            await bind(client, f"p{number}", card.id)
            client.waited_s, began_s = 0.0, time.perf_counter()
            await stub.Allocate(request)
            times_ms.append((time.perf_counter() - began_s - client.waited_s) * 1000)
            await client.delete(PODS, f"p{number}", namespace="default", grace_period_s=0)
    return times_ms[WARM_UP:]


async def measure_memory(client: KubeClient, settings: NodeSettings, root: Path) -> dict[str, float]:
    """Let a real process serve pods for a simulated kubelet; returns what it has in memory, in MB."""
    cards = SimulatedMachine(NODE, load_machine(MACHINE)).gpus
    async with SimulatedKubelet(NODE, client, settings.plugins_dir) as kubelet, run_plugin(settings, root) as process:
        async with asyncio.timeout(TIMEOUT_S):
            while kubelet.allocatable.get(settings.resource_name, 0) < SERVED_PODS:  # noqa: ASYNC110 - it announces nothing
                await asyncio.sleep(0.1)
        for number in range(SERVED_PODS):
            await bind(client, f"q{number}", cards[number % len(cards)].uuid)
            await wait_until(client, PODS, lambda pods, name=f"q{number}": is_served(pods, name), timeout_s=TIMEOUT_S)
        return read_memory(process.pid)


def read_memory(pid: int) -> dict[str, float]:
    """Tell what a process has in memory now and at most had, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    figures = dict(line.split(":", 1) for line in lines)
    return {name: int(figures[key].split()[0]) / 1024 for name, key in (("rss_mb", "VmRSS"), ("peak_mb", "VmHWM"))}


def is_served(pods: Mapping[Key, Pod], name: str) -> bool:
    """Tell whether a pod runs with its share; one that was refused never will."""
    pod = pods.get(("default", name))
    if pod is None:
        return False
    if pod.status.phase == "Failed":
        raise RuntimeError(f"pod {name} was refused: {pod.status.reason}")
    return pod.status.phase == "Running" and pod.annotations.get("hami.io/bind-phase") == "success"


@asynccontextmanager
async def run_plugin(settings: NodeSettings, root: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the device plugin as a process of its own."""
    flags = (
        f"--node-name={NODE}",
        f"--cards={MACHINE}",
        f"--kubeconfig={root / 'kubeconfig'}",
        f"--kubelet-socket={settings.kubelet_socket}",
        f"--host-root={root}",
    )
    command = [sys.executable, "-m", "gpuloom.cli", "device-plugin", *flags]
    with (root / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()


async def measure() -> dict[str, Any]:
    """Measure both."""
    with tempfile.TemporaryDirectory(prefix="gl-") as folder:
        root = Path(folder)
        settings = NodeSettings(NODE, plugins_dir=root / "dp", host_root=root)
        settings.plugins_dir.mkdir()
        library = settings.on_this_side(settings.library)
        library.parent.mkdir(parents=True)
        library.touch()
        async with LocalApiServer() as server:
            server.write_kubeconfig(root / "kubeconfig")
            async with TimedClient(load_kubeconfig(root / "kubeconfig")) as client:
                await client.create(NODES, {"metadata": {"name": NODE}})
                times_ms = await measure_calls(client, settings)
                memory = await measure_memory(client, settings, root)
    return {
        "calls": len(times_ms),
        "p50_ms": round(statistics.median(times_ms), 3),
        "p99_ms": round(statistics.quantiles(times_ms, n=100)[-1], 3),
        "served_pods": SERVED_PODS,
        **{name: round(value, 1) for name, value in memory.items()},
        "goals": GOALS,
    }


def main() -> None:
    """Print the figures."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    print(json.dumps(asyncio.run(measure()), indent=2))


if __name__ == "__main__":
    main()
