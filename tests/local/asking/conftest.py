"""A small cluster with something running and something waiting, asked by the command line as people run it."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest_asyncio

from gpuloom.kube.resources import LEASES, PODS
from gpuloom.local.cluster import LocalCluster
from gpuloom.local.description import ClusterDescription, NodeDescription
from gpuloom.local.manifests import pod_manifest
from gpuloom.local.waiting import wait_until
from gpuloom.node.simulated import load_machine

POD = """\
kind: Pod
metadata: {name: new}
spec:
  containers:
    - name: c
      resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 6000}}
"""
DEADLINE_S = 60.0


@dataclass(frozen=True)
class Said:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    def json(self):
        return msgspec.json.decode(self.out)


async def start_gpuloom(*tokens: str, kubeconfig: str = "", **env: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("GPULOOM_", "KUBE"))}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gpuloom.cli",
        *tokens,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env={**clean, "KUBECONFIG": kubeconfig, **env},
    )


async def run_gpuloom(*tokens: str, kubeconfig: str = "", stdin: str = "", **env: str) -> Said:
    process = await start_gpuloom(*tokens, kubeconfig=kubeconfig, **env)
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate(stdin.encode())
    return Said(process.returncode or 0, out.decode(), err.decode())


@dataclass(frozen=True)
class Stage:
    """The cluster; ``gpuloom`` runs a command against it as its administrator."""

    cluster: LocalCluster

    async def gpuloom(self, *tokens: str, kubeconfig: str = "", stdin: str = "", **env: str) -> Said:
        return await run_gpuloom(*tokens, kubeconfig=kubeconfig or str(self.cluster.kubeconfig), stdin=stdin, **env)


@asynccontextmanager
async def scheduler_of(stage: Stage, chart: str) -> AsyncIterator[None]:
    """Let the pod of a scheduler that this chart installed hold HAMi's lease."""
    client, where = stage.cluster.client, "kube-system"
    labels = {"app.kubernetes.io/component": "hami-scheduler", "app.kubernetes.io/name": chart}
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}
    await client.create(PODS, {"metadata": {"name": "decides-1", "labels": labels}, "spec": spec}, namespace=where)
    lease = {"holderIdentity": "decides-1_4b1c", "leaseDurationSeconds": 15}
    await client.create(LEASES, {"metadata": {"name": "hami-scheduler"}, "spec": lease}, namespace=where)
    try:
        yield
    finally:
        await client.delete(LEASES, "hami-scheduler", namespace=where)
        await client.delete(PODS, "decides-1", namespace=where, grace_period_s=0)


HAMI_DECIDES = (
    "gpuloom: HAMi's scheduler decides here (pod kube-system/decides-1) and may give closed cards to pods: "
    "it heeds them from 2.10 on, NVIDIA's alone, and late\n"
)


async def settle(cluster: LocalCluster, *running: str) -> None:
    def are_running(found) -> bool:
        return all(
            (pod := found.get(("default", name))) is not None and pod.status.phase == "Running" for name in running
        )

    await wait_until(cluster.client, PODS, are_running, timeout_s=60)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    nodes = (NodeDescription("node-a", load_machine("two-t4")), NodeDescription("node-b", load_machine("four-l4")))
    with tempfile.TemporaryDirectory(prefix="gpuloom-") as directory:
        async with LocalCluster(ClusterDescription(nodes), Path(directory)) as cluster:
            await cluster.wait_until_registered()
            await cluster.submit(pod_manifest("runs", memory_mib=6000, cores=25))
            await cluster.submit(pod_manifest("waits", memory_mib=60_000))
            await settle(cluster, "runs")
            yield Stage(cluster)
