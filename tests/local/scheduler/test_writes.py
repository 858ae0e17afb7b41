"""How many writes a pod costs, and how long any write may take (binding 1 and 2.1)."""

import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from local.scheduler.clock import poll
from local.scheduler.site import DEFAULTS, HANDSHAKE, VGPU_NODE, Site, open_site

from gpuloom.kube import WRITE_DEADLINE_S, KubeClient, load_kubeconfig


class CountingClient(KubeClient):
    """A client that notes its writes (verb, kind, and the time that each is given) and its reads of one object."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.writes: list[tuple[str, str, float | None]] = []
        self.reads: list[tuple[str, str]] = []

    async def get(self, resource: Any, name: str, **options: Any) -> Any:
        self.reads.append((resource.kind, name))
        return await super().get(resource, name, **options)

    async def patch(self, resource: Any, name: str, body: Any, **options: Any) -> Any:
        self.writes.append(("patch", resource.kind, options.get("timeout_s")))
        return await super().patch(resource, name, body, **options)

    async def create(self, resource: Any, body: Any, **options: Any) -> Any:
        self.writes.append(("create", resource.kind, options.get("timeout_s")))
        return await super().create(resource, body, **options)

    async def bind(self, **options: Any) -> None:
        self.writes.append(("bind", "Pod", options.get("timeout_s")))
        await super().bind(**options)


class DelayedClient(KubeClient):
    """A client beside whose writes of pods something happens before their turn has come."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    async def patch(self, resource: Any, name: str, body: Any, **options: Any) -> Any:
        if resource.kind == "Pod":
            self.meanwhile()
        return await super().patch(resource, name, body, **options)


@pytest.fixture
async def counted(tmp_path: Path) -> AsyncIterator[tuple[Site, CountingClient]]:
    """A site whose scheduler is to write through the counting client; tests write through another."""
    async with open_site(tmp_path) as site:
        credentials = load_kubeconfig(tmp_path / "kubeconfig")
        client = CountingClient(credentials, sleep=site.clock.sleep)
        yield site, await site.stack.enter_async_context(client)


async def start(site: Site, client: KubeClient, **settings: Any) -> None:
    theirs, site.client = site.client, client
    await site.start(dataclasses.replace(DEFAULTS, **settings))
    site.client = theirs
    await site.process.wait_synced()
    await site.register("n1")
    await poll(lambda: HANDSHAKE in site.process.state.shown.nodes["n1"].annotations)


async def test_a_pod_costs_two_writes(counted: tuple[Site, CountingClient]) -> None:
    """binding 1 two writes: lock and binding."""
    site, client = counted
    await start(site, client, pod_label=False)
    client.writes.clear()
    pod = await site.submit()
    await site.choose(pod)
    await site.bind(pod)
    writes = [(verb, kind) for verb, kind, _ in client.writes if kind != "Event"]
    assert writes == [("patch", "Node"), ("bind", "Pod")]


@pytest.mark.parametrize("filter_write", ["bind", "inline"])
async def test_no_write_is_given_more_than_four_seconds(
    counted: tuple[Site, CountingClient], filter_write: str
) -> None:
    """binding 2.1 at most 4 s, whatever else is set."""
    site, client = counted
    await start(site, client, filter_write=filter_write)
    pod, waits = await site.submit(memory_mib=9000), await site.submit("waits", memory_mib=9000)
    await site.choose(pod)
    assert await site.choose(waits) is None
    await site.bind(pod)
    await site.wait_bound(pod)
    await site.wait_event("BindingSucceed")
    await site.remove(pod)
    await site.clock.run_until(
        lambda: "gpuloom.io/woken" in site.process.state.shown.pods[waits.metadata.uid].annotations
    )
    assert {(verb, kind) for verb, kind, _ in client.writes} >= {
        ("patch", "Node"),
        ("bind", "Pod"),
        ("patch", "Pod"),
        ("create", "Event"),
    }
    assert [write for write in client.writes if write[2] is None or write[2] > WRITE_DEADLINE_S] == []
    assert WRITE_DEADLINE_S <= 4


async def test_a_waiter_sets_a_free_lock_without_reading_anything(counted: tuple[Site, CountingClient]) -> None:
    """binding 3 GET only after a 409: the watched node's version will do."""
    site, client = counted
    await start(site, client)
    first, second = await site.submit("first"), await site.submit("second")
    for pod in (first, second):
        await site.choose(pod)
    assert await site.bind(first) == ""
    waiting = site.start_bind(second)
    await poll(lambda: site.process.locks.waiting == 1)
    await site.unlock()
    assert await waiting == ""
    assert client.reads == []


async def test_a_decision_is_not_written_by_filter_once_somebody_else_is_in_charge(tmp_path: Path) -> None:
    """binding 5 no new write starts, not even one that waited for its turn."""
    async with open_site(tmp_path) as site:
        client = DelayedClient(load_kubeconfig(tmp_path / "kubeconfig"), sleep=site.clock.sleep)
        await start(site, await site.stack.enter_async_context(client), filter_write="inline")
        pod = await site.submit()
        client.meanwhile = lambda: setattr(site.process.state.charge, "obstacle", "there_1 leads")
        assert (await site.filter(pod))["Error"] == "there_1 leads"
        assert VGPU_NODE not in (await site.pod()).annotations
        assert len(site.process.state.cluster.ledger) == 0
