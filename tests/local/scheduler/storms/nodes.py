"""What nodes, their administrators and those who set limits do."""

from contextlib import suppress
from typing import Any

from local.scheduler.storms.world import NAMES, Deed, World

from gpuloom.kube import DISRUPTION_BUDGETS, NODES, RESOURCE_QUOTAS, ApiError, Resource
from gpuloom.kube.cordons import NodeCard, write_cordon

SELECTORS: tuple[dict[str, Any], ...] = (
    {},
    {"matchLabels": {"l": "1"}},
    {"matchExpressions": [{"key": "l", "operator": "In", "values": ["0", "1", "2", "3"]}]},
    {"matchExpressions": [{"key": "l", "operator": "DoesNotExist"}]},
    {"matchExpressions": [{"key": "l", "operator": "Unheard"}]},
)


class NodeDeeds:
    def __init__(self, world: World) -> None:
        self._world, self._site, self._chance = world, world.site, world.chance

    @property
    def deeds(self) -> dict[Deed, float]:
        """What may be done, by how often it is."""
        return {
            self.change_cards: 3,
            self.cordon: 1,
            self.cordon_card: 1,
            self.renew_node: 2,
            self.change_quota: 2,
            self.change_budget: 2,
        }

    async def change_cards(self) -> None:
        """Let a node register fewer, more or other cards, or say what cannot be read."""
        name = self._chance.choice(NAMES)
        said: dict[str, str | None] = dict(self._world.register(name))
        key = self._chance.choice(sorted(said))
        text = self._chance.choice((said[key], said[key], "broken", "[]", None))
        await self._world.annotate_node(name, self._chance.choice((said, {key: text}, {key: text})))

    async def cordon(self) -> None:
        name = self._chance.choice(NAMES)
        await self._world.annotate_node(name, {"hami.io/device-cordon": self._chance.choice((None, f"GPU-{name}-0"))})

    async def cordon_card(self) -> None:
        name, chance = self._chance.choice(NAMES), self._chance
        card = chance.choice((f"GPU-{name}-1", f"GPU-{name}-mig", f"Acme-0-{name}"))
        await write_cordon(self._site.client, NodeCard(name, card), is_closed=chance.random() < 0.5)

    async def renew_node(self) -> None:
        name = self._chance.choice(NAMES)
        with suppress(ApiError):
            await self._site.client.delete(NODES, name)
        if self._chance.random() < 0.8:
            await self._world.make_node(name)

    async def change_quota(self) -> None:
        hard = {"limits.nvidia.com/gpumem": str(self._chance.choice((3000, 20000, 60000)))}
        if self._chance.random() < 0.3:
            hard = {"limits.acme.example/memory": str(self._chance.choice((4, 16)))}
        await self._change(RESOURCE_QUOTAS, {"spec": {"hard": hard}})

    async def change_budget(self) -> None:
        spec = {"maxUnavailable": 1, "selector": self._chance.choice(SELECTORS)}
        await self._change(DISRUPTION_BUDGETS, {"spec": spec})
        allowed = {"status": {"disruptionsAllowed": self._chance.choice((0, 0, 1, 3))}}
        await self._site.client.patch(DISRUPTION_BUDGETS, "a", allowed, namespace="default", subresource="status")

    async def _change(self, kind: Resource[Any], body: dict[str, Any]) -> None:
        name, client = self._chance.choice(("a", "b")), self._site.client
        match self._chance.choice(("create", "patch", "delete")):
            case "create":
                await client.create(kind, {"metadata": {"name": name}, **body}, namespace="default")
            case "patch":
                await client.patch(kind, name, body, namespace="default")
            case _:
                await client.delete(kind, name, namespace="default")
