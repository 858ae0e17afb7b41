"""The annotation loop: the node object always says which cards the node has (device plugin 8)."""

import asyncio

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError
from gpuloom.kube.resources import NODES
from gpuloom.node.clock import Sleep
from gpuloom.node.errors import CardReadError
from gpuloom.node.inventory import CardInventory
from gpuloom.node.settings import NodeSettings
from gpuloom.wire import keys
from gpuloom.wire.register import encode_register

PERIOD_S = 30.0
RETRY_S = 5.0
_log = structlog.get_logger(__name__)


async def register_cards(settings: NodeSettings, client: KubeClient, inventory: CardInventory) -> bool:
    """One tick: read cards and node, patch the annotation if it is missing or differs; True if it was patched.

    Raises CardReadError and ApiError.
    """
    cards = await inventory.refresh()
    node = await client.get(NODES, settings.node_name)
    value = encode_register(cards, settings.register_format)
    if node.annotations.get(keys.NODE_REGISTER) == value:
        return False
    await client.patch(NODES, settings.node_name, {"metadata": {"annotations": {keys.NODE_REGISTER: value}}})
    _log.info("registered", node=settings.node_name, cards=len(cards))
    return True


async def keep_registered(
    settings: NodeSettings, client: KubeClient, inventory: CardInventory, *, sleep: Sleep = asyncio.sleep
) -> None:
    """Tick every 30 s, 5 s after an error, until cancelled. What others delete or change is repaired."""
    while True:
        try:
            await register_cards(settings, client, inventory)
        except (ApiError, CardReadError) as error:
            _log.warning("registration failed", node=settings.node_name, error=str(error), retry_s=RETRY_S)
            await sleep(RETRY_S)
        else:
            await sleep(PERIOD_S)
