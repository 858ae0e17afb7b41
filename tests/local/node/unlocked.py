"""A node without the lock, its kubelet's book and its plugin's Allocate, without gRPC."""

import asyncio

from gpuloom.kube.resources import NODES, PODS
from gpuloom.model.card import Card
from gpuloom.node.allocate import Allocator
from gpuloom.node.knownpods import KnownPod
from gpuloom.node.nvml import Gpu

LOCK = "hami.io/mutex.lock"
PHASE = "hami.io/bind-phase"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
ALLOCATED = "hami.io/vgpu-devices-allocated"
RESOURCE = "nvidia.com/gpu"
ONE = "GPU-a,NVIDIA,6000,10:;"
ID = ("GPU-a-0",)
CARD = Gpu(uuid="GPU-a", index=0, name="NVIDIA A40", memory_mib=10000, pci_bus_id="")
REGISTERED = Card(id="GPU-a", memory_mib=10000, cores=100, count=10, mode="hami-core", healthy=True)


class Scene:
    """A node without a lock; ``book`` is what its kubelet knows, None where that is not shown."""

    gpus: tuple[Gpu, ...] = (CARD,)
    cards: tuple[Card, ...] = (REGISTERED,)

    def __init__(self, client, settings):
        self.client = client
        self.settings = settings
        self.book = None
        self.reported = []
        self.restart()

    def restart(self, watch=None):
        """A plugin that has just started remembers nothing."""
        self.allocator = Allocator(
            self.settings,
            self.client,
            read_gpus=lambda: self.gpus,
            read_cards=lambda: self.cards,
            read_book=self._read_book,
            watch=watch,
            report=lambda pod, message: self.reported.append((pod.name, message)),
            sleep=self._sleep,
        )

    async def _read_book(self):
        return self.book

    async def _sleep(self, seconds):
        del seconds
        await asyncio.sleep(0)

    async def add_pod(self, name="p", to_allocate=ONE, containers=("c",), init=(), namespace="default", **annotations):
        known = {"hami.io/vgpu-node": "n1", PHASE: "allocating", TO_ALLOCATE: to_allocate, ALLOCATED: to_allocate}
        resources = {"limits": {RESOURCE: "1"}}
        spec = {
            "nodeName": "n1",
            "schedulerName": "hami-scheduler",
            "containers": [{"name": each, "image": "i", "resources": resources} for each in containers],
            "initContainers": [{"name": each, "image": "i", "resources": resources} for each in init],
        }
        body = {"metadata": {"name": name, "annotations": known | annotations}, "spec": spec}
        return await self.client.create(PODS, body, namespace=namespace)

    async def lock(self, name):
        text = f"2026-01-01T00:00:00Z,default,{name}"
        await self.client.patch(NODES, "n1", {"metadata": {"annotations": {LOCK: text}}})

    async def has_lock(self):
        return LOCK in (await self.client.get(NODES, "n1")).annotations

    async def annotate(self, name, **annotations):
        await self.client.patch(PODS, name, {"metadata": {"annotations": annotations}}, namespace="default")

    async def says(self, name="p"):
        found = (await self.client.get(PODS, name, namespace="default")).annotations
        return found[PHASE], found[TO_ALLOCATE]

    def begins(self, name, containers=("c",), **devices):
        """The kubelet enters a pod in its book and asks for the devices that it does not have."""
        entry = KnownPod("default", name, {each: devices.get(each, []) for each in containers})
        self.book = [*(one for one in self.book or [] if one.name != name), entry]

    def begins_next(self, name, after):
        """The kubelet has given a pod its device, and begins with another."""
        self.begins(after, c=[*ID])
        self.begins(name)


def count_calls(client, monkeypatch):
    """Return what is asked of the API server from now on, as a list that grows."""
    made = []

    def count(verb):
        method = getattr(client, verb)

        async def counted(resource, *args, **options):
            made.append(f"{verb} {resource.plural}")
            return await method(resource, *args, **options)

        monkeypatch.setattr(client, verb, counted)

    for verb in ("get", "list_all", "patch"):
        count(verb)
    return made
