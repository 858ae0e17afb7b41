"""The node's cards as the plugin knows them now, and who wants to hear of changes.

What the driver lists and what is known about sick cards come together here; it talks to neither kubelet nor API server.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace

import structlog

from gpuloom.model.card import Card
from gpuloom.node.discovery import build_cards, is_offered
from gpuloom.node.health import HealthBook
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
        self._cards: tuple[Card, ...] = ()
        self._offers: Mapping[str, MigOffer] = {}
        self._changed = asyncio.Condition()

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards as last read."""
        return self._cards

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """What the driver said about the cards that are offered, in the order of their indexes."""
        offered = {card.id for card in self._cards}
        return tuple(sorted((gpu for gpu in self._gpus if gpu.uuid in offered), key=lambda gpu: (gpu.index, gpu.uuid)))

    @property
    def uuids(self) -> tuple[str, ...]:
        """The cards by UUID, as last read."""
        return tuple(card.id for card in self._cards)

    def offer_parts(self, offers: Mapping[str, MigOffer]) -> None:
        """Take over what each card can be divided into, by UUID; it shows with the next reading."""
        self._offers = offers

    async def read_gpus(self) -> tuple[Gpu, ...]:
        """Read the driver now for all cards that are not filtered, whatever is offered of them.

        Raises CardReadError.
        """
        return tuple(gpu for gpu in await self._nvml.read_gpus() if is_offered(gpu, self._settings))

    async def refresh(self) -> tuple[Card, ...]:
        """Read the driver now.

        Raises CardReadError when it does not answer; the cards stay as they were.
        """
        gpus = await self._nvml.read_gpus()
        self._report_mute(gpus)
        self._gpus = gpus
        await self.apply_health()
        return self._cards

    async def apply_health(self) -> None:
        """Let the cards say what is known about sick ones now."""
        sick = self._book.sick
        gpus = (replace(gpu, healthy=gpu.healthy and gpu.uuid not in sick) for gpu in self._gpus)
        cards = build_cards(gpus, self._settings, self._offers)
        if cards == self._cards:
            return
        _log.info("cards", offered=len(cards), found=len(self._gpus), unhealthy=sum(not card.healthy for card in cards))
        async with self._changed:
            self._cards = cards
            self._changed.notify_all()

    async def changes(self) -> AsyncGenerator[tuple[Card, ...], None]:
        """Give the cards now, and again whenever they are others; a slow reader skips to the latest."""
        known: tuple[Card, ...] | None = None
        while True:
            known = await self.wait_for_change(known)
            yield known

    async def wait_for_change(self, known: tuple[Card, ...] | None) -> tuple[Card, ...]:
        """Return the cards once they are others than `known`."""
        async with self._changed:
            while self._cards == known:
                await self._changed.wait()
        return self._cards

    def _report_mute(self, gpus: tuple[Gpu, ...]) -> None:
        """Name cards that must be left out, once per change."""
        if gpus == self._gpus:
            return
        for gpu in gpus:
            if not is_offered(gpu, self._settings):
                continue
            if not (gpu.memory_mib or self._settings.preconfigured_memory_mib):
                _log.error("card cannot tell its memory: set preConfiguredDeviceMemory to offer it", uuid=gpu.uuid)
            if gpu.can_be_divided and self._settings.mode != "mig":
                _log.error(
                    "card is not offered because MIG is switched on: switch it off (nvidia-smi -mig 0), or set "
                    "operatingmode mig for this node",
                    uuid=gpu.uuid,
                )
