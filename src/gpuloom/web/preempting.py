"""Plans of preemption that know the PodDisruptionBudgets of those whom they name.

The scheduler keeps no labels of the pods that hold cards, and no budgets, so both are asked of the API server: of the
few pods that a plan names, until a plan names nobody who is not known. So a plan is chosen as if all were known.
"""

import asyncio
from collections.abc import Sequence

from gpuloom.engine.state.ledger import Reservation
from gpuloom.kube import DISRUPTION_BUDGETS, PODS, ApiError, KubeClient, NotFoundError
from gpuloom.kube.lists import ListOptions
from gpuloom.web.pacing import Pace
from gpuloom.web.views.preempting import Prospect, VictimFacts, find_prospect
from gpuloom.web.views.source import Source
from gpuloom.wire.objects import Pod

MOST_TURNS = 8
MOST_ASKED = 64
"""So many plans are made for one question, and so many pods looked up."""
_MOST_BUDGETS = 500


class BudgetLookup:
    """Asks the API server about those whom plans name, for one question at a time and by a rate limit of its own."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client.with_own_budget()
        self._turn = asyncio.Lock()

    async def plan(self, source: Source, pace: Pace, pod: Pod) -> tuple[Prospect, VictimFacts]:
        """Plan whom to evict for a pod."""
        facts = VictimFacts()
        async with self._turn:
            for _ in range(MOST_TURNS):
                prospect = await pace.finish(find_prospect(source, pod, facts))
                unknown = [one.reservation for one in prospect.victims if one.uid not in facts.known]
                unknown = unknown[: MOST_ASKED - len(facts.known)]
                if not unknown:
                    break
                try:
                    await self._learn(facts, unknown)
                except ApiError as error:
                    facts.not_looked_at, facts.names_pods = f"PodDisruptionBudgets: {error}", True
                    return prospect, facts
        if any(one.uid not in facts.known for one in prospect.victims):
            facts.not_looked_at = "PodDisruptionBudgets of some of these pods: there are too many to ask about"
        return prospect, facts

    async def _learn(self, facts: VictimFacts, unknown: Sequence[Reservation]) -> None:
        """Find out the budgets of some pods. Raises ApiError."""
        for namespace in sorted({held.namespace for held in unknown} - facts.namespaces):
            await self._read_budgets(facts, namespace)
        for held in unknown:
            try:
                pod = await self._client.get(PODS, held.name, namespace=held.namespace)
            except NotFoundError:
                pod = Pod()
            protecting = facts.budgets.protecting(held.namespace, held.name, pod.labels)
            facts.known[held.uid] = (protecting, not pod.is_static)

    async def _read_budgets(self, facts: VictimFacts, namespace: str) -> None:
        page = await self._client.list_page(DISRUPTION_BUDGETS, ListOptions(namespace), limit=_MOST_BUDGETS)
        for budget in page.items:
            facts.budgets.apply(budget)
        if page.unreadable or page.continue_token:
            facts.budgets.apply_unreadable(namespace, "one-that-cannot-be-read")
        facts.namespaces.add(namespace)
