"""What nodes, their administrators and those who set limits do."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from local.scheduler.storms.world import NAMES, NAMESPACES, Deed, World

from gpuloom.cli.draining.carrying_out import drain, list_pods_on
from gpuloom.cli.outcomes import CommandError
from gpuloom.kube import DISRUPTION_BUDGETS, NODES, RESOURCE_QUOTAS, ApiError, Resource
from gpuloom.kube.cordons import NodeCard, list_closed_for_moves, write_cordon
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.keys import NODE_CORDON, NODE_MOVING
from gpuloom.wire.words import decode_list

DRAIN_TIMEOUT_S = 0.5
LIMITS = {
    "limits.nvidia.com/gpumem": (3000, 20000, 60000),
    "limits.nvidia.com/gpucores": (30, 60),
    "limits.acme.example/memory": (4, 16),
    "limits.hygon.com/dcumem": (4000, 12000),
}

SELECTORS: tuple[dict[str, Any], ...] = (
    {},
    {"matchLabels": {"l": "1"}},
    {"matchExpressions": [{"key": "l", "operator": "In", "values": ["0", "1", "2", "3"]}]},
    {"matchExpressions": [{"key": "l", "operator": "DoesNotExist"}]},
    {"matchExpressions": [{"key": "l", "operator": "Unheard"}]},
)


class NodeDeeds:
    """``drained`` counts the cards that were drained to the end."""

    def __init__(self, world: World) -> None:
        self._world, self._site, self._chance = world, world.site, world.chance
        self.drained = 0

    @property
    def deeds(self) -> dict[Deed, float]:
        """What may be done, by how often it is."""
        return {
            self.change_cards: 3,
            self.cordon: 1,
            self.cordon_card: 1,
            self.drain_card: 2,
            self.stop_draining: 0.5,
            self.give_cards_back: 2,
            self.leave_closed: 0.5,
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
        await self._world.annotate_node(name, {NODE_CORDON: self._chance.choice((None, f"GPU-{name}-0"))})

    async def cordon_card(self) -> None:
        name, chance = self._chance.choice(NAMES), self._chance
        card = chance.choice((f"GPU-{name}-1", f"GPU-{name}-mig", f"Acme-0-{name}"))
        await write_cordon(self._site.client, NodeCard(name, card), is_closed=chance.random() < 0.5)

    async def drain_card(self) -> None:
        """Begin to drain a card as the command does; nobody waits for its end."""
        name = self._chance.choice(NAMES)
        card = self._chance.choice((f"GPU-{name}-0", f"GPU-{name}-1", f"DCU-0-{name}"))
        self._world.errands.append(asyncio.create_task(self._drain(NodeCard(name, card))))

    async def _drain(self, place: NodeCard) -> None:
        async def agree(pods: Sequence[FullPod]) -> None:
            self._world.sent_away.update(pod.metadata.uid for pod in pods)

        client = self._site.client
        with suppress(ApiError, CommandError):
            await drain(client, place, await list_pods_on(client, place), agree, DRAIN_TIMEOUT_S)
            self.drained += 1

    async def stop_draining(self) -> None:
        """Stop those who drain, as Ctrl-C does."""
        for errand in self._world.errands:
            errand.cancel()

    async def give_cards_back(self) -> None:
        """Open what is closed, be it for moves."""
        for place, _ in await self._find_closed():
            if self._chance.random() < 0.5:
                await write_cordon(self._site.client, place, is_closed=False)

    async def give_all_cards_back(self) -> None:
        """Open what is closed; who moves pods opens what that is closed for."""
        for place, is_for_moves in await self._find_closed():
            if not is_for_moves:
                await write_cordon(self._site.client, place, is_closed=False)

    async def _find_closed(self) -> list[tuple[NodeCard, bool]]:
        """Return the closed cards, and whether each is closed for moves of the process."""
        nodes, _ = await self._site.client.list_all(NODES)
        return [
            (NodeCard(node.name, card), card in list_closed_for_moves(node))
            for node in nodes
            for card in decode_list(node.annotations.get(NODE_CORDON, ""))
        ]

    async def leave_closed(self) -> None:
        """Leave what a process does that is killed while it moves pods."""
        name = self._chance.choice(NAMES)
        card = f"GPU-{name}-{self._chance.choice('01')}"
        await self._world.annotate_node(name, {NODE_CORDON: card, NODE_MOVING: card})

    async def renew_node(self) -> None:
        name = self._chance.choice(NAMES)
        with suppress(ApiError):
            await self._site.client.delete(NODES, name)
        if self._chance.random() < 0.8:
            await self._world.make_node(name)

    async def change_quota(self) -> None:
        hard = {
            name: str(self._chance.choice(limits)) for name, limits in LIMITS.items() if self._chance.random() < 0.4
        }
        await self._change(RESOURCE_QUOTAS, {"spec": {"hard": hard}}, self._world.choose_namespace())

    async def change_budget(self) -> None:
        spec = {"maxUnavailable": 1, "selector": self._chance.choice(SELECTORS)}
        namespace = self._world.choose_namespace()
        await self._change(DISRUPTION_BUDGETS, {"spec": spec}, namespace)
        allowed = {"status": {"disruptionsAllowed": self._chance.choice((0, 0, 1, 3))}}
        await self._site.client.patch(DISRUPTION_BUDGETS, "a", allowed, namespace=namespace, subresource="status")

    async def forbid_moves(self) -> None:
        """Let no pod go any more that a budget could keep."""
        for namespace in NAMESPACES:
            body = {"metadata": {"name": "all"}, "spec": {"maxUnavailable": 0, "selector": {}}}
            await self._site.client.create(DISRUPTION_BUDGETS, body, namespace=namespace)

    async def _change(self, kind: Resource[Any], body: dict[str, Any], namespace: str) -> None:
        name, client = self._chance.choice(("a", "b")), self._site.client
        match self._chance.choice(("create", "patch", "delete")):
            case "create":
                await client.create(kind, {"metadata": {"name": name}, **body}, namespace=namespace)
            case "patch":
                await client.patch(kind, name, body, namespace=namespace)
            case _:
                await client.delete(kind, name, namespace=namespace)
