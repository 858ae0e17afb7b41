"""A small cluster of objects, and the soak's promises held against it, with a clock that the test moves."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gpuloom.kube import NODES, PODS, KubeClient, load_kubeconfig
from gpuloom.local.apiserver import LocalApiServer
from harness.accounts import Accounts
from harness.chaos.calm import BACKOFF_S, Calm
from harness.chaos.promises import Promises
from harness.chaos.shapes import ALL, Rooms
from harness.fleet import make_node, make_share_pod

LOCK = "hami.io/mutex.lock"


class Scene:
    """One node with two cards of 10,000 MiB. `now_s` is the time; `promises` have looked on since it was calm."""

    def __init__(self, client: KubeClient, accounts: Accounts):
        self.now_s = 100.0
        self.client = client
        self.accounts = accounts
        self.calm = Calm(lambda: accounts.locks, lambda: self.now_s)
        self.promises = Promises(accounts, self.calm, Rooms(ALL), lambda: self.now_s)
        accounts.followers.append(self.promises)

    async def add_node(self) -> None:
        await self.client.create(NODES, make_node("node-0", cards=2, memory_mib=10_000, slots=10))
        await self.accounts.wait_for(lambda: "node-0" in self.accounts.nodes)

    async def lock(self, value: str) -> None:
        await self.client.patch(NODES, "node-0", {"metadata": {"annotations": {LOCK: value}}})
        await self.accounts.wait_for(lambda: self.accounts.locks.get("node-0") == value)

    async def add_pod(self, name: str, memory_mib: int = 8000, *, bound: str = "", **annotations: str) -> str:
        """Create a pod, bound with this list of cards if given; return its UID once the accounts know it."""
        pod = make_share_pod(name, memory_mib)
        if bound:
            pod["spec"]["nodeName"] = "node-0"
            told = {"vgpu-devices-allocated": bound, "bind-phase": "allocating", **annotations}
            pod["metadata"]["annotations"] = {f"hami.io/{key}": value for key, value in told.items()}
        uid = (await self.client.create(PODS, pod, namespace="default")).metadata.uid
        await self.accounts.wait_for(lambda: uid in self.accounts.pods)
        return uid

    async def annotate(self, name: str, **annotations: str) -> None:
        told = {f"hami.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
        body: dict[str, Any] = {"metadata": {"annotations": told}}
        pod = await self.client.patch(PODS, name, body, namespace="default")
        version = pod.metadata.resource_version
        await self.accounts.wait_for(lambda: self.accounts.pods[pod.metadata.uid].metadata.resource_version == version)

    def serve(self, uid: str, *cards: str, asked: str = "") -> None:
        answer = {"answer": "served", "asked": asked or uid, "uid": uid, "node": "node-0", "cards": cards}
        self.promises.hear(answer)

    def pass_time(self, seconds: float) -> list[str]:
        """Let time go by and have the promises look; return what they complain of."""
        self.now_s += seconds
        self.calm.check()
        self.promises.look()
        return self.promises.complaints

    def calm_down(self) -> None:
        self.pass_time(BACKOFF_S)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with LocalApiServer() as server:
        file = tmp_path / "kubeconfig"
        server.write_kubeconfig(file)
        async with KubeClient(load_kubeconfig(file)) as client, Accounts(client) as accounts:
            scene = Scene(client, accounts)
            await scene.add_node()
            scene.calm_down()
            yield scene
            await asyncio.sleep(0)
