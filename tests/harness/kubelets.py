"""Kubelets of many nodes, played, before the project's own Allocate, in a process of their own.

``python -m harness.kubelets KUBECONFIG DIRECTORY CARDS ALLOCATE_S`` asks for the devices of every bound pod, one pod of
a node after the other, as a kubelet does: it does not say for which pod. A pod that was served runs then, one whose
Allocate fails is failed for good, as its status says. It prints a line of JSON for every answer. Pods that were served
before its start are let be.
"""

import asyncio
import json
import logging
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
import uvloop

from gpuloom.kube import (
    PODS,
    ApiError,
    Applied,
    InitialObject,
    KubeClient,
    NotFoundError,
    Reflector,
    ReflectorTiming,
    load_kubeconfig,
)
from gpuloom.model.card import Card
from gpuloom.node.allocate import Allocator, Served
from gpuloom.node.errors import AllocationError
from gpuloom.node.nvml import Gpu
from gpuloom.node.settings import NodeSettings
from gpuloom.wire.objects import Pod
from harness.accounts import sleep_briefly

PHASE = "hami.io/bind-phase"
RETRY_S = 0.5


class Kubelets:
    """All kubelets and their device plugins."""

    def __init__(
        self, client: KubeClient, host_root: Path, cards: int, *, allocate_s: float, tell: Callable[..., None]
    ):
        """Prepare them; `host_root` gets the nodes' files, each has so many `cards`.

        `allocate_s` passes before each Allocate.
        """
        self._client = client
        self._host_root = host_root
        self._cards = cards
        self._allocate_s = allocate_s
        self._tell = tell
        self._waiting: dict[str, asyncio.Queue[Pod]] = defaultdict(asyncio.Queue)
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._seen: set[str] = set()

    async def run(self) -> None:
        """Serve until cancelled."""
        reflector = Reflector(self._client, PODS, timing=ReflectorTiming(sleep=sleep_briefly))
        async with aclosing(reflector.events()) as events:
            async for event in events:
                if isinstance(event, Applied | InitialObject):
                    self._take(event.object)

    def _take(self, pod: Pod) -> None:
        node, uid = pod.spec.node_name, pod.metadata.uid
        is_new = bool(node) and uid not in self._seen and pod.status.phase in {"", "Pending"}
        if not is_new or pod.is_terminating or pod.annotations.get(PHASE) not in {"allocating", "success"}:
            return
        self._seen.add(uid)
        self._waiting[node].put_nowait(pod)
        if node not in self._workers:
            self._workers[node] = asyncio.create_task(self._work(node))

    async def _work(self, node: str) -> None:
        settings = NodeSettings(node_name=node, host_root=self._host_root, plugins_dir=self._host_root / "plugins")
        gpus = [_make_gpu(node, number) for number in range(self._cards)]
        registered = [_make_card(gpu) for gpu in gpus]
        allocator = Allocator(settings, self._client, read_gpus=lambda: gpus, read_cards=lambda: registered)
        while True:
            pod = await self._waiting[node].get()
            if pod.annotations.get(PHASE) == "allocating":
                await asyncio.sleep(self._allocate_s)
                await self._admit(pod, node, allocator)
            else:
                # Served, and then the kubelet that is to say so was killed.
                await self._report(pod, _run())

    async def _admit(self, pod: Pod, node: str, allocator: Allocator) -> None:
        count = int(str(pod.containers[0].limits["nvidia.com/gpu"]))
        ids = [f"GPU-{node}-{number}-0" for number in range(count)]
        try:
            served = await allocator.allocate([ids])
        except AllocationError as error:
            is_gone = not await self._report(pod, _refuse())
            self._tell(answer="refused", asked=pod.metadata.uid, node=node, is_gone=is_gone, message=str(error))
        else:
            self._tell_served(pod, node, served)
            await self._report(pod, _run())

    def _tell_served(self, pod: Pod, node: str, served: Served) -> None:
        cards = [share.uuid for grant in served.grants for share in grant.shares]
        for grant in served.grants:
            if grant.cache_dir:
                shutil.rmtree(self._host_root / grant.cache_dir.lstrip("/"), ignore_errors=True)
        self._tell(answer="served", asked=pod.metadata.uid, uid=served.pod.metadata.uid, node=node, cards=cards)

    async def _report(self, pod: Pod, status: Mapping[str, Any]) -> bool:
        """Write a pod's status, as soon as the API server is there; say whether the pod was still there and alive."""
        while True:
            try:
                found = await self._client.get(PODS, pod.name, namespace=pod.namespace)
                if found.metadata.uid != pod.metadata.uid or found.is_over or found.is_terminating:
                    return False
                # A pod that ends meanwhile stays over: no kubelet lets it run again.
                await self._client.patch(
                    PODS,
                    pod.name,
                    {"status": status},
                    namespace=pod.namespace,
                    subresource="status",
                    uid=pod.metadata.uid,
                    resource_version=found.metadata.resource_version,
                )
            except NotFoundError:
                return False
            except ApiError:
                await asyncio.sleep(RETRY_S)
            else:
                return True


def _run() -> Mapping[str, Any]:
    return {"phase": "Running", "startTime": _tell_time()}


def _refuse() -> Mapping[str, Any]:
    return {"phase": "Failed", "reason": "UnexpectedAdmissionError", "startTime": _tell_time()}


def _tell_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _make_gpu(node: str, number: int) -> Gpu:
    return Gpu(uuid=f"GPU-{node}-{number}", index=number, name="NVIDIA A40", memory_mib=10_000, pci_bus_id="")


def _make_card(gpu: Gpu) -> Card:
    return Card(id=gpu.uuid, memory_mib=gpu.memory_mib or 0, cores=100, count=10, mode="hami-core", healthy=True)


def write_line(**answer: Any) -> None:
    """Print one answer."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def play(kubeconfig: str, host_root: str, cards: str, allocate_s: str) -> None:
    """Play the kubelets until the process is ended."""
    async with KubeClient(load_kubeconfig(kubeconfig)) as client:
        kubelets = Kubelets(client, Path(host_root), int(cards), allocate_s=float(allocate_s), tell=write_line)
        await kubelets.run()


if __name__ == "__main__":
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    uvloop.run(play(*sys.argv[1:]))
