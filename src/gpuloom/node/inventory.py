"""The node's cards as the plugin knows them now, and who wants to hear of changes.

The one place that reads the driver; it talks to neither kubelet nor API server.
"""

import asyncio
from collections.abc import AsyncGenerator

import structlog

from gpuloom.model.card import Card
from gpuloom.node.clock import Sleep
from gpuloom.node.discovery import build_cards
from gpuloom.node.errors import CardReadError
from gpuloom.node.nvml import Gpu, Nvml
from gpuloom.node.settings import NodeSettings

_RETRY_S = 5.0
_log = structlog.get_logger(__name__)


class CardInventory:
    """Cards in the order of their indexes; every change replaces the whole tuple."""

    def __init__(self, nvml: Nvml, settings: NodeSettings, *, sleep: Sleep = asyncio.sleep) -> None:
        self._nvml = nvml
        self._settings = settings
        self._sleep = sleep
        self._gpus: tuple[Gpu, ...] = ()
        self._cards: tuple[Card, ...] = ()
        self._changed = asyncio.Condition()

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards as last read."""
        return self._cards

    async def refresh(self) -> tuple[Card, ...]:
        """Read the driver now.

        Raises CardReadError when it does not answer; the cards stay as they were.
        """
        await self._replace(await self._nvml.read_gpus())
        return self._cards

    async def follow(self) -> None:
        """Keep the cards up to date until cancelled."""
        while True:
            try:
                await self._replace(await self._nvml.wait_for_change(self._gpus))
            except CardReadError as error:
                _log.warning("cards cannot be read, keeping the last list", error=str(error), retry_s=_RETRY_S)
                await self._sleep(_RETRY_S)

    async def changes(self) -> AsyncGenerator[tuple[Card, ...], None]:
        """Give the cards now, and again whenever they are others; a slow reader skips to the latest."""
        known: tuple[Card, ...] | None = None
        while True:
            async with self._changed:
                while self._cards == known:
                    await self._changed.wait()
            known = self._cards
            yield known

    async def _replace(self, gpus: tuple[Gpu, ...]) -> None:
        cards = build_cards(gpus, self._settings)
        self._gpus = gpus
        if cards == self._cards:
            return
        for gpu in gpus:
            if gpu.memory_mib is None and not self._settings.preconfigured_memory_mib:
                _log.error("card cannot tell its memory: set a preconfigured memory to offer it", uuid=gpu.uuid)
        _log.info("cards", offered=len(cards), found=len(gpus), unhealthy=sum(not card.healthy for card in cards))
        async with self._changed:
            self._cards = cards
            self._changed.notify_all()
