"""Very many Binds at once: only so many writes are under way, the others wait here and not in the API server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from local.scheduler.clock import poll
from local.scheduler.site import DEFAULTS, Site, open_site

from gpuloom.kube import KubeClient, load_kubeconfig
from gpuloom.scheduler.bind.nodelock.locks import WRITES_AT_ONCE
from gpuloom.wire.objects import Pod

BINDS = WRITES_AT_ONCE + 3


class HoldingClient(KubeClient):
    """A client that can hold its writes back; ``held`` counts those that were begun."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.held = {"lock": 0, "binding": 0}
        self._gates = {"lock": asyncio.Event(), "binding": asyncio.Event()}
        self.let("lock")
        self.let("binding")

    def hold(self, what: str) -> None:
        """Let no such write through."""
        self._gates[what].clear()

    def let(self, what: str) -> None:
        """Let such writes through, from now on and those that were held."""
        self._gates[what].set()

    async def patch(self, resource: Any, name: str, body: Any, **options: Any) -> Any:
        if "hami.io/mutex.lock" in body.get("metadata", {}).get("annotations", {}):
            await self._wait("lock")
        return await super().patch(resource, name, body, **options)

    async def bind(self, **options: Any) -> None:
        await self._wait("binding")
        await super().bind(**options)

    async def _wait(self, what: str) -> None:
        if not self._gates[what].is_set():
            self.held[what] += 1
            await self._gates[what].wait()


@pytest.fixture
async def crowd(tmp_path: Path) -> AsyncIterator[tuple[Site, HoldingClient, list[Pod]]]:
    """A site whose writes can be held, and pods, each of which has got a node of its own."""
    async with open_site(tmp_path) as site:
        credentials = load_kubeconfig(tmp_path / "kubeconfig")
        client = await site.stack.enter_async_context(HoldingClient(credentials, sleep=site.clock.sleep))
        theirs, site.client = site.client, client
        await site.start(DEFAULTS)
        site.client = theirs
        await site.process.wait_synced()
        pods = []
        for number in range(BINDS):
            await site.register(f"n{number}")
            pods.append(await site.submit(f"p{number}"))
            assert await site.choose(pods[-1], f"n{number}") == f"n{number}"
        yield site, client, pods


def start_binds(site: Site, pods: list[Pod]) -> "list[asyncio.Task[str]]":
    return [site.start_bind(pod, f"n{number}") for number, pod in enumerate(pods)]


async def test_only_so_many_locks_are_set_at_once(crowd: tuple[Site, HoldingClient, list[Pod]]) -> None:
    site, client, pods = crowd
    client.hold("lock")
    binds = start_binds(site, pods)
    await poll(lambda: site.process.locks.waiting == BINDS)
    assert client.held["lock"] == WRITES_AT_ONCE
    client.let("lock")
    assert await asyncio.gather(*binds) == [""] * BINDS


async def test_only_so_many_bindings_are_written_at_once(crowd: tuple[Site, HoldingClient, list[Pod]]) -> None:
    site, client, pods = crowd
    client.hold("binding")
    binds = start_binds(site, pods)
    await poll(lambda: client.held["binding"] == WRITES_AT_ONCE and site.process.locks.waiting == 0)
    assert len(site.process.state.binds.binding) == WRITES_AT_ONCE
    client.let("binding")
    assert await asyncio.gather(*binds) == [""] * BINDS


async def test_a_bind_superseded_while_others_are_written_ends_without_writing(
    crowd: tuple[Site, HoldingClient, list[Pod]],
) -> None:
    """binding 2 step 4: compared after every await."""
    site, client, pods = crowd
    client.hold("binding")
    binds = start_binds(site, pods)
    await poll(lambda: client.held["binding"] == WRITES_AT_ONCE and site.process.locks.waiting == 0)
    number = next(place for place, pod in enumerate(pods) if pod.metadata.uid not in site.process.state.binds.binding)
    assert await site.choose(pods[number], "n0") == "n0"
    client.let("binding")
    assert "was superseded" in await binds[number]
    assert await site.lock(f"n{number}") is None
    assert (await site.pod(f"p{number}")).spec.node_name == ""
    await asyncio.gather(*binds)
