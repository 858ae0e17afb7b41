"""The cluster that a storm rages over, and what all deeds need of it."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from aiohttp import ClientError
from local.scheduler.clock import DEADLINE_S
from local.scheduler.site import REGISTER, Site, card, offer
from msgspec.structs import replace

from gpuloom.kube import HOST_PODS, LEASES, NODES, PODS, ApiError, NotFoundError
from gpuloom.local.vendornode import VendorMachine, describe_machine
from gpuloom.model.card import Card
from gpuloom.model.mig import MigPlacement, MigProfile
from gpuloom.scheduler import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.register import encode_register

Deed = Callable[[], Awaitable[None]]
NAMES = ("n1", "n2", "n3")
NAMESPACES = ("default", "team-a", "team-b")
OTHERS = ("DCU", "Ascend910B4", "Acme")
"""Vendors besides NVIDIA: one that shares cards likewise, one that divides them by templates, one of the user's own."""
SERVES = "gpuloom.io/serves"
COMPONENT = {"app.kubernetes.io/component": "hami-device-plugin"}
SLICES = (
    MigProfile("1g.5gb", 5000, 14, 1, tuple(MigPlacement(start, 1) for start in range(7))),
    MigProfile("3g.20gb", 9000, 42, 3, (MigPlacement(0, 4), MigPlacement(4, 4))),
)


@dataclass
class World:
    """One cluster.

    binds       the calls of Bind that were begun
    errands     what people do that takes a while
    leader      who holds the lease, where leaders are elected
    preempting  UIDs of pods for which kube-scheduler evicts others
    created     by UID the full names of all pods
    owned       UIDs of those that have an owner
    sent_away   UIDs of those that people and kube-scheduler wanted to go
    unanswered  UIDs of those that a process may have asked to leave, without an answer, when it was killed
    bound_by_others  UIDs of those that another scheduler has bound
    """

    site: Site
    chance: Random
    settings: SchedulerSettings
    binds: list["asyncio.Task[None]"] = field(default_factory=list)
    errands: list["asyncio.Task[None]"] = field(default_factory=list)
    leader: str = "here_1"
    preempting: set[str] = field(default_factory=set)
    created: dict[str, str] = field(default_factory=dict)
    owned: set[str] = field(default_factory=set)
    sent_away: set[str] = field(default_factory=set)
    unanswered: set[str] = field(default_factory=set)
    bound_by_others: set[str] = field(default_factory=set)
    _plugins: int = 0

    @property
    def state(self) -> SchedulerState:
        return self.site.process.state

    def choose_namespace(self) -> str:
        return self.chance.choice((*NAMESPACES, "default"))

    async def find_pods(self, *, bound: bool | None = None) -> list[HostPod]:
        # One namespace after the other: faults concern the lists of all that the process reads.
        lists = [await self.site.client.list_all(HOST_PODS, namespace=namespace) for namespace in NAMESPACES]
        pods = [pod for found, _ in lists for pod in found]
        return [
            pod for pod in pods if pod.name.startswith("p-") and (bound is None or bool(pod.spec.node_name) is bound)
        ]

    async def submit(self, name: str, **request: Any) -> str:
        """Create a pod; return its UID."""
        pod = await self.site.submit(name, seen=False, **request)
        self.created[pod.metadata.uid] = pod.full_name
        if request.get("owner"):
            self.owned.add(pod.metadata.uid)
        return pod.metadata.uid

    async def change_pod(self, pod: HostPod, body: Any, *, subresource: str = "") -> None:
        await self.site.client.patch(PODS, pod.name, body, namespace=pod.namespace, subresource=subresource)

    async def renew_lease(self) -> None:
        """Let whoever leads say so, where leaders are elected."""
        if self.settings.leader_elect:
            stamp = self.site.clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")
            spec = {"holderIdentity": self.leader, "leaseDurationSeconds": 15, "renewTime": stamp}
            try:
                await self.site.client.patch(LEASES, "hami-scheduler", {"spec": spec}, namespace="kube-system")
            except NotFoundError:
                body = {"metadata": {"name": "hami-scheduler"}, "spec": spec}
                await self.site.client.create(LEASES, body, namespace="kube-system")

    async def lead(self) -> None:
        """Let the process be in charge."""
        self.leader = "here_1"
        async with asyncio.timeout(DEADLINE_S):
            while not self.state.charge.is_ours:
                await self.renew_lease()
                await self.site.clock.advance(1)
                await asyncio.sleep(0.01)

    def bind(self, pod: HostPod, node: str) -> None:
        """Begin a call of Bind; nobody waits for its answer, which a process that is killed does not give."""

        async def call() -> None:
            with suppress(ClientError):
                await self.site.bind(pod, node)

        self.binds.append(asyncio.create_task(call()))

    async def delete_pod(self, pod: HostPod, grace_period_s: int | None = 0) -> None:
        await self.site.client.delete(PODS, pod.name, namespace=pod.namespace, grace_period_s=grace_period_s)

    async def annotate_node(self, name: str, annotations: Mapping[str, str | None]) -> None:
        await self.site.client.patch(NODES, name, {"metadata": {"annotations": dict(annotations)}})

    async def make_node(self, name: str) -> None:
        annotations = self.register(name)
        if self.chance.random() < 0.4:
            annotations[SERVES] = f"NVIDIA;{await self._run_plugin(name)}"
        metadata = {"name": name, "annotations": annotations}
        await self.site.client.create(NODES, {"metadata": metadata, "status": self._offer()})

    async def put_in_order(self, name: str) -> None:
        """Give a node that has lost them its cards back."""
        with suppress(ApiError):
            await self.make_node(name)
        others = self._machine(name)
        annotations = {REGISTER: encode_register(list_cards(name, 2)), **others.annotations}
        await self.annotate_node(name, {**annotations, **dict.fromkeys(others.handshakes)})

    def register(self, name: str) -> dict[str, str]:
        """Return what a node says of its cards; sometimes they have been those of another node."""
        owner = name if self.chance.random() < 0.8 else "n1"
        cards = [self._change(one) for one in list_cards(owner, self.chance.randint(1, 3))]
        said = {REGISTER: encode_register(cards)}
        return said | dict(self._machine(owner).annotations if self.chance.random() < 0.7 else {})

    def _change(self, card: Card) -> Card:
        """Return a card as it is mostly, or broken, or with other amounts."""
        changes: tuple[dict[str, Any], ...] = ({"healthy": False}, {"memory_mib": 6000}, {"count": 1}, {"cores": 50})
        return replace(card, **self.chance.choice(changes)) if self.chance.random() < 0.2 else card

    def _machine(self, owner: str) -> VendorMachine:
        machine = VendorMachine()
        for word in OTHERS:
            machine |= describe_machine(self.settings.catalog[word], cards=self.chance.randint(1, 2), memory_mib=10000)
        named = {key: rename(text, owner) for key, text in machine.annotations.items()}
        return VendorMachine(named, machine.labels, machine.capacity, machine.handshakes, machine.counts)

    def _offer(self) -> dict[str, dict[str, str]]:
        counts = {self.settings.catalog[word].resources.count: "10" for word in OTHERS}
        return {key: {**counts, **given} for key, given in offer(10).items()}

    async def _run_plugin(self, node: str) -> str:
        self._plugins += 1
        manifest = {
            "metadata": {"name": f"plugin-{self._plugins}", "labels": COMPONENT},
            "spec": {"nodeName": node, "containers": [{"name": "p", "image": "i"}]},
        }
        return (await self.site.client.create(PODS, manifest, namespace="default")).metadata.uid


def list_cards(owner: str, count: int) -> list[Card]:
    """Return cards of a node, of which the last of three is divided in hardware."""
    whole = [card(owner, position) for position in range(min(count, 2))]
    return whole if count < 3 else [*whole, divided(owner)]


def divided(owner: str) -> Card:
    return Card(
        id=f"GPU-{owner}-mig",
        index=2,
        count=7,
        memory_mib=40000,
        cores=100,
        model="NVIDIA A100",
        mode="mig",
        healthy=True,
        mig_profiles=SLICES,
    )


def rename(text: str, owner: str) -> str:
    """Give the cards of a registration names that no other node's have."""
    said: Any = json.loads(text)
    for one in said:
        one["id"] = f"{one['id']}-{owner}"
    return json.dumps(said)
