"""The node's cards as the plugin knows them now, and who waits for changes.

It joins what the driver lists with what is known about sick cards; it talks to neither kubelet nor API server.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace

import structlog

from gpuloom.model.card import Card
from gpuloom.node.discovery import build_resources, explain_omissions, is_offered
from gpuloom.node.health import HealthBook, HealthTarget
from gpuloom.node.mig.offers import MigOffer
from gpuloom.node.nvml import Gpu, Nvml
from gpuloom.node.settings import NodeSettings

_log = structlog.get_logger(__name__)


class CardInventory:
    """Cards in the order of their indexes; every change replaces the whole tuple."""

    def __init__(self, nvml: Nvml, settings: NodeSettings, book: HealthBook) -> None:
        self._nvml = nvml
        self._settings = settings
        self._book = book
        self._gpus: tuple[Gpu, ...] = ()
        self._is_read = False
        self._resources: Mapping[str, tuple[Card, ...]] = {settings.resource_name: ()}
        self._offers: Mapping[str, MigOffer] = {}
        self._changed = asyncio.Condition()

    @property
    def is_read(self) -> bool:
        """Whether the driver ever listed its cards."""
        return self._is_read

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards that are registered, as last read."""
        return self._resources[self._settings.resource_name]

    @property
    def resources(self) -> Mapping[str, tuple[Card, ...]]:
        """What is offered to the kubelet, by resource; the registered cards are one of them."""
        return self._resources

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """What the driver said about the cards that are offered, in the order of their indexes."""
        offered = {card.id for card in self.cards}
        return tuple(sorted((gpu for gpu in self._gpus if gpu.uuid in offered), key=lambda gpu: (gpu.index, gpu.uuid)))

    @property
    def targets(self) -> tuple[HealthTarget, ...]:
        """What may become sick: the cards that are not filtered, or their instances if these are offered."""
        present = (gpu for gpu in self._gpus if is_offered(gpu, self._settings))
        return tuple(target for gpu in present for target in _read_target(gpu, self._settings))

    @property
    def answers(self) -> Mapping[str, bool]:
        """Whether each card that is not filtered answered when the cards were last read, by UUID."""
        return {gpu.uuid: gpu.healthy for gpu in self._gpus if is_offered(gpu, self._settings)}

    def find_ids(self, resource: str) -> tuple[str, ...]:
        """Return the ids of a resource's cards or instances, none for an unknown resource."""
        return tuple(card.id for card in self._resources.get(resource, ()))

    def offer_parts(self, offers: Mapping[str, MigOffer]) -> None:
        """Set what each card can be divided into, by UUID; it takes effect with the next reading."""
        self._offers = offers

    async def read_gpus(self) -> tuple[Gpu, ...]:
        """Return all cards that are not filtered, read from the driver now, whatever is offered of them.

        Raises CardReadError.
        """
        return tuple(gpu for gpu in await self._nvml.read_gpus() if is_offered(gpu, self._settings))

    async def refresh(self) -> tuple[Card, ...]:
        """Read the driver now.

        Raises CardReadError when it does not answer; then the cards stay as they were.
        """
        gpus = await self._nvml.read_gpus()
        self._report_mute(gpus)
        self._gpus, self._is_read = gpus, True
        await self.apply_health()
        return self.cards

    async def apply_health(self) -> None:
        """Bring the cards up to date with what is known about sick ones."""
        resources = build_resources(map(self._judge, self._gpus), self._settings, self._offers)
        if resources == self._resources:
            return
        for resource, cards in resources.items():
            unhealthy = sum(not card.healthy for card in cards)
            _log.info("cards", resource=resource, offered=len(cards), found=len(self._gpus), unhealthy=unhealthy)
        async with self._changed:
            self._resources = resources
            self._changed.notify_all()

    async def changes(self, resource: str) -> AsyncGenerator[tuple[Card, ...], None]:
        """Yield a resource's cards now, and again whenever they change; a slow reader skips to the latest."""
        known: tuple[Card, ...] | None = None
        while True:
            known = await self.wait_for_change(resource, known)
            yield known

    async def wait_for_change(self, resource: str, known: tuple[Card, ...] | None) -> tuple[Card, ...]:
        """Return a resource's cards once they differ from `known`."""
        async with self._changed:
            while self._resources.get(resource, ()) == known:
                await self._changed.wait()
        return self._resources.get(resource, ())

    def _judge(self, gpu: Gpu) -> Gpu:
        """Return a card with what is known about its health, and about that of its instances."""
        sick = self._book.sick
        devices = tuple(replace(device, healthy=device.uuid not in sick) for device in gpu.devices)
        return replace(gpu, healthy=gpu.healthy and gpu.uuid not in sick, devices=devices)

    def _report_mute(self, gpus: tuple[Gpu, ...]) -> None:
        """Log the cards that must be left out, once per change."""
        if gpus != self._gpus:
            for uuid, reason in explain_omissions(gpus, self._settings):
                _log.error("card is not offered", uuid=uuid, reason=reason)


def _read_target(gpu: Gpu, settings: NodeSettings) -> tuple[HealthTarget, ...]:
    """Return what of a card is well or sick by itself: its instances if they are offered, otherwise all of it."""
    if settings.mig_strategy == "none" or not gpu.devices:
        return (HealthTarget(gpu.uuid, gpu.uuid),)
    return tuple(
        HealthTarget(device.uuid, gpu.uuid, (device.gpu_instance_id, device.compute_instance_id))
        for device in gpu.devices
    )
