"""One node in a random story: a simulated machine, the plugin's parts over it, and what the kubelet is told."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

from gpuloom.kube.client import KubeClient
from gpuloom.kube.recorder import EventRecorder
from gpuloom.kube.resources import NODES, PODS
from gpuloom.model.card import Card
from gpuloom.node.allocate import Allocator
from gpuloom.node.api import deviceplugin_pb2 as api
from gpuloom.node.errors import CardReadError
from gpuloom.node.health import HealthBook
from gpuloom.node.healthwatch import HealthWatch
from gpuloom.node.inventory import CardInventory
from gpuloom.node.plugin import DevicePluginService
from gpuloom.node.registration import NodeRegistration
from gpuloom.node.replicas import physical_id
from gpuloom.node.settings import NodeSettings
from gpuloom.node.simulated import MachineDescription, SimulatedMachine
from gpuloom.wire import keys
from gpuloom.wire.objects import Pod
from gpuloom.wire.register import NoCardsError, decode_register

from .machines import End, Faults, Meddling, Pause, Start, Step, Story, Xid

_ENOUGH_LOOKS = 15


async def _no_wait(seconds: float) -> None:
    del seconds


@dataclass(frozen=True)
class RunningPod:
    """A pod with the cards that the scheduler gave it, the kubelet's ids and what its container sees."""

    name: str
    cards: tuple[str, ...]
    ids: tuple[str, ...]
    visible: tuple[str, ...]


class World:
    """Plays a story on one node; after every step it has settled."""

    def __init__(self, story: Story, client: KubeClient, base: NodeSettings) -> None:
        node = base.node_name
        self.settings = replace(base, **story.settings)
        self.machine = SimulatedMachine(node, story.machine, tick_s=0)
        self.pods: list[RunningPod] = []
        self.is_described_anew = False
        self._client = client
        self._now_s = 0.0
        self._count = 0
        book = HealthBook(self.settings.health)
        self.inventory = CardInventory(self.machine, self.settings, book)
        self._watch = HealthWatch(
            self.machine, self.inventory, book, self.settings.health, sleep=_no_wait, now=lambda: self._now_s
        )
        self._registration = NodeRegistration(
            self.settings, client, self.inventory, self.machine, EventRecorder(client, "test")
        )
        self._allocator = Allocator(
            self.settings,
            client,
            read_gpus=lambda: self.inventory.gpus,
            read_ids=self.inventory.find_ids,
            sleep=_no_wait,
        )

    @property
    def resource(self) -> str:
        """The resource of the scheduler."""
        return self.settings.resource_name

    async def begin(self) -> None:
        await self._client.create(NODES, {"metadata": {"name": self.settings.node_name}})
        await self.settle()

    async def take(self, step: Step) -> None:
        """Let one thing happen, and let the plugin notice it."""
        match step:
            case Xid(card, xid, instance):
                gpus = self.machine.gpus
                self.machine.raise_xid(None if card is None else gpus[card % len(gpus)].uuid, xid, instance)
            case Faults(faults):
                self.machine.set_faults(faults)
            case Pause(seconds):
                self._now_s += seconds
            case Meddling(text):
                await self._annotate({keys.NODE_REGISTER: text})
            case Start():
                await self._start(step)
            case End(choice) if self.pods:
                self.pods.pop(choice % len(self.pods))
            case MachineDescription():
                self.is_described_anew = True
                self.machine.describe(step)
        await self.settle()

    async def settle(self) -> None:
        """Let the plugin look as often as it takes to notice everything, and register."""
        for _ in range(_ENOUGH_LOOKS):
            await self._watch.look()
        with suppress(CardReadError):
            await self._registration.tick()

    async def registered(self) -> Sequence[Card]:
        """What the scheduler reads."""
        node = await self._client.get(NODES, self.settings.node_name)
        # In the csv forms no card is no text.
        if not (text := node.annotations[keys.NODE_REGISTER]):
            return ()
        try:
            return decode_register(text)
        except NoCardsError:
            return ()

    async def advertised(self, resource: str) -> Mapping[str, str]:
        """What the kubelet is told: health by device id."""
        async with aclosing(self._serve(resource).ListAndWatch(api.Empty(), Silence())) as lists:
            devices = (await anext(lists)).devices
        assert len({device.ID for device in devices}) == len(devices)
        return {device.ID: device.health for device in devices}

    def _serve(self, resource: str) -> Any:
        return DevicePluginService(self.settings, self.inventory, self._allocator, lambda *_: None, resource=resource)

    async def _start(self, step: Start) -> None:
        cards = self._schedule(await self.registered(), step)
        ids = self._pick(await self.advertised(self.resource), step)
        if not cards or not ids:
            return
        self._count += 1
        name = f"{self.settings.node_name}-{self._count}"
        await self._bind(name, cards)
        request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids)])
        answer = await self._serve(self.resource).Allocate(request, Silence())
        visible = answer.container_responses[0].envs["NVIDIA_VISIBLE_DEVICES"].split(",")
        self.pods.append(RunningPod(name, tuple(cards), tuple(ids), tuple(visible)))

    def _schedule(self, cards: Sequence[Card], step: Start) -> Sequence[str]:
        used = [uuid for pod in self.pods for uuid in pod.cards]
        free = [card.id for card in cards if card.healthy and used.count(card.id) < card.count]
        return _rotate(free, step.choice)[: step.cards] if len(free) >= step.cards else ()

    def _pick(self, devices: Mapping[str, str], step: Start) -> Sequence[str]:
        used = {device for pod in self.pods for device in pod.ids}
        free = sorted(device for device, health in devices.items() if health == "Healthy" and device not in used)
        return _rotate(free, step.choice)[: step.cards] if len(free) >= step.cards else ()

    async def _bind(self, name: str, cards: Sequence[str]) -> None:
        """Do what the scheduler does."""
        node = self.settings.node_name
        await self._annotate({keys.NODE_LOCK: f"2026-01-01T00:00:00Z,default,{name}"})
        annotations = {
            keys.VGPU_NODE: node,
            keys.BIND_PHASE: keys.PHASE_ALLOCATING,
            keys.DEVICES_TO_ALLOCATE: "".join(f"{card},NVIDIA,1,1:" for card in cards) + ";",
        }
        spec = {"nodeName": node, "schedulerName": "hami-scheduler", "containers": [{"name": "c", "image": "i"}]}
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
        await self._client.create(PODS, body, namespace="default")

    async def pod(self, name: str) -> Pod:
        return await self._client.get(PODS, name, namespace="default")

    async def _annotate(self, annotations: Mapping[str, str | None]) -> None:
        await self._client.patch(NODES, self.settings.node_name, {"metadata": {"annotations": dict(annotations)}})

    def sees(self, pod: RunningPod) -> Sequence[str]:
        """What a pod's container ought to see: the scheduler's cards, or the instances that the kubelet took."""
        return [physical_id(each) for each in pod.ids] if "MIG" in pod.ids[0] else pod.cards


class Silence:
    """The context of a call that nobody aborts."""

    async def abort(self, code: object, details: str) -> None:
        raise AssertionError(f"{code}: {details}")


def _rotate(items: Sequence[str], by: int) -> Sequence[str]:
    place = by % len(items) if items else 0
    return [*items[place:], *items[:place]]
