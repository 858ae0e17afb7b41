"""Everything that happens to pods, nodes, quotas and budgets, in an order that chance chooses, with all calls failing.

What a process knows at the end must be what one knows that has only seen the end.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from local.scheduler.clock import POLL_S, let_answers_arrive, poll_answer
from local.scheduler.site import Site
from local.scheduler.storms.accounts import Accounts
from local.scheduler.storms.judge import Judge
from local.scheduler.storms.moves import MoveDeeds
from local.scheduler.storms.network import NetworkDeeds
from local.scheduler.storms.nodes import NodeDeeds
from local.scheduler.storms.pods import OTHER_LIMITS, PodDeeds
from local.scheduler.storms.voices import Voices
from local.scheduler.storms.world import NAMES, NAMESPACES, Deed, World

from gpuloom.cli.asking.namespaces import NAMESPACES as ALL_NAMESPACES
from gpuloom.kube import HOST_PODS, NODES, AlreadyExistsError, ApiError
from gpuloom.scheduler import SchedulerProcess, SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.keys import NODE_MOVING
from gpuloom.wire.objects import Pod

ROUNDS = 40
AMOUNTS = [{"nvidia.com/gpu": cards, "nvidia.com/gpumem": mib} for cards in "12" for mib in ("1000", "4000", "10000")]


class Storm:
    """One cluster, and what users, kube-scheduler, kubelets, administrators and the network do to it.

    wrong  what broke a promise
    """

    def __init__(self, site: Site, chance: Random, settings: SchedulerSettings) -> None:
        self.wrong: list[str] = []
        self._site, self._world = site, World(site, chance, settings)
        self._pods, self._nodes = PodDeeds(self._world), NodeDeeds(self._world)
        while_listed = (self._pods.create_pod, self._pods.schedule, self._pods.delete_pod)
        self._moves = MoveDeeds(self._world, self._pods, self._nodes)
        actors = (self._pods, self._nodes, self._moves, NetworkDeeds(self._world, while_listed), self)
        self._deeds = {deed: weight for one in actors for deed, weight in one.deeds.items()}

    @property
    def deeds(self) -> dict[Deed, float]:
        """What may be done, by how often it is."""
        return {
            self.kill: 0.3,
            self.ask_people: 6,
        }

    @property
    def _state(self) -> SchedulerState:
        return self._site.process.state

    async def begin(self) -> None:
        """Make the namespaces, and start the process."""
        for name in NAMESPACES:
            with suppress(AlreadyExistsError):
                await self._site.client.create(ALL_NAMESPACES, {"metadata": {"name": name}})
        await self.start()

    async def start(self) -> None:
        """Start a process, in the place of one that runs."""
        site = self._site
        await site.clock.run_until_done(asyncio.create_task(site.stack.aclose()), step_s=0.1)
        judges: list[Judge] = []

        def make_judge(state: SchedulerState) -> Judge:
            judges.append(Judge(state, self.wrong, self._world.preempting))
            return judges[0]

        settings, clocks = self._world.settings, site.clock.clocks
        site.process = SchedulerProcess(settings, site.client, clocks=clocks, make_observer=make_judge)
        judges[0].process, self._voices = site.process, Voices(site.process.parts)
        await site.stack.enter_async_context(site.process)
        await site.clock.run_until(site.process.parts.gate.listed.is_set, step_s=0.1)
        with suppress(ApiError):
            await self._world.lead()

    async def rage(self, steps: int) -> None:
        for _ in range(steps):
            (deed,) = self._world.chance.choices(list(self._deeds), list(self._deeds.values()))
            # Chance may choose what the API server refuses.
            with suppress(ApiError):
                await deed()

    async def kill(self) -> None:
        moving = [node.name for node in self._state.shown.nodes.values() if NODE_MOVING in node.annotations]
        held = [one.uid for node in moving for one in self._state.cluster.ledger.on_node(node)]
        killed = self._site.process
        await self.start()
        self._world.unanswered.update(held, killed.parts.preemption.evictor.unanswered)

    async def ask_people(self) -> None:
        """Ask all who say whether a pod fits about one that waits."""
        if self._world.settings.filter_write != "bind":
            return
        # One that another has bound meanwhile would be reserved here, and what was decided here counts on.
        unbound = {pod.metadata.uid for pod in await self._world.find_pods(bound=False)}
        waiting = [pod for uid, pod in self._state.shown.pods.items() if uid in unbound and not pod.is_terminating]
        if waiting:
            self.wrong += self._voices.find_contradictions(self._world.chance.choice(waiting))

    @property
    def drained(self) -> int:
        """How many cards were drained to the end."""
        return self._nodes.drained

    async def calm_down(self) -> None:
        """End all faults, put every node in order, and wait until the process knows all there is.

        Cards are given back, and nobody is moved any more but in a plan that is under way.
        """
        self._site.server.faults.clear()
        await self._world.lead()
        for name in NAMES:
            await self._world.put_in_order(name)
        while not all(errand.done() for errand in self._world.errands):
            await self._pods.let_leavers_go(1.0)
            await self._site.clock.advance(0.1)
            await asyncio.sleep(POLL_S)
        self.wrong += [
            f"{errand} ended so" for errand in self._world.errands if not errand.cancelled() and errand.exception()
        ]
        if self._world.settings.defragmentation == "on":
            await self._moves.want_whole_card()
            await poll_answer(self._has_ended_moves)
        await self._nodes.forbid_moves()
        await self._nodes.give_all_cards_back()
        await self._wait_until_seen()
        await poll_answer(self._has_ended_moves)
        for _ in range(ROUNDS):
            if await self._settle():
                return
        of_others = self._world.preempting & {one.uid for one in self._state.nominations}
        self.wrong.append(
            f"never settled: {list(self._state.nominations)} {of_others}, {self._state.shown.terminating} end"
        )

    async def _has_ended_moves(self) -> bool:
        """Go on; tell whether no card is closed for moves any more."""
        await self._settle()
        return not any(NODE_MOVING in node.annotations for node in self._state.shown.nodes.values())

    async def _settle(self) -> bool:
        """Go on without faults; tell whether nothing is under way any more."""
        await self._world.renew_lease()
        await self._pods.settle()
        await self._site.clock.run_until(lambda: all(bind.done() for bind in self._world.binds))
        await self._site.clock.advance(1)
        await let_answers_arrive()
        await self._wait_until_seen()
        state = self._state
        is_over = not (len(state.nominations) or state.shown.terminating or state.binds.allocating)
        return is_over and not any(self._is_to_be_tried(pod) for pod in state.shown.pods.values())

    def _is_to_be_tried(self, pod: Pod) -> bool:
        has_its_turn = pod.metadata.uid not in self._state.waiting.unschedulable and not pod.own_group
        return has_its_turn and not pod.spec.node_name and not self._state.cluster.ledger.find(pod.metadata.uid)

    async def find_waiting_beside_room(self) -> list[str]:
        """Return pods that nobody would try again although a node takes them."""
        await self._site.clock.advance(2)
        await let_answers_arrive()
        found = []
        for uid in list(self._state.waiting.unschedulable):
            pod = self._state.shown.pods.get(uid)
            if pod and not pod.own_group and uid in self._state.waiting.unschedulable:
                reply = await self._site.filter(pod, *NAMES)
                found += [f"{pod.name} could have {node}" for node in reply["NodeNames"] or ()]
        return found

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and nothing else happen."""
        for _ in range(round(seconds / 10)):
            await self._world.renew_lease()
            await self._site.clock.advance(10)
        await self._world.lead()
        await self._wait_until_seen()

    async def probe(self) -> dict[str, object]:
        """Return what pods would be answered that nobody knows."""
        found = {}
        for namespace, limits in ((one, limits) for one in NAMESPACES for limits in (*OTHER_LIMITS, *AMOUNTS)):
            found[f"{namespace} {limits}"] = await self._probe(namespace, limits)
            # It is given back.
            await self._probe(namespace, {"nvidia.com/gpu": "100"})
        return found

    async def find_accounts_wrong(self, logs: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return what does not add up at the end, what is left that nobody needs, and who left without a reason."""
        return [line async for line in Accounts(self._world).find_wrong(logs)]

    async def _probe(self, namespace: str, limits: Mapping[str, str]) -> Any:
        spec = {"containers": [{"name": "c", "resources": {"limits": limits}}]}
        pod = {"metadata": {"name": "probe", "namespace": namespace, "uid": "probe"}, "spec": spec}
        return await self._site.call("filter", {"Pod": pod, "Nodes": None, "NodeNames": NAMES})

    async def _wait_until_seen(self) -> None:
        """Wait until the process knows all objects as they are."""
        await poll_answer(self._has_seen_all)

    async def _has_seen_all(self) -> bool:
        pods, _ = await self._site.client.list_all(HOST_PODS)
        nodes, _ = await self._site.client.list_all(NODES)
        there = [pod for pod in pods if self._state.settings.asks_for_cards(pod) and not pod.is_over]
        counted = {pod.metadata.uid: pod for pod in there if pod.spec.node_name or not pod.is_terminating}
        return (
            versions(self._state.shown.nodes) == versions({node.name: node for node in nodes})
            and all(
                versions(self._state.shown.pods).get(uid) == pod.metadata.resource_version
                for uid, pod in counted.items()
            )
            and self._state.shown.pods.keys() <= {pod.metadata.uid for pod in pods if not pod.is_over}
        )


def versions(objects: Mapping[str, Any]) -> dict[str, str]:
    return {key: one.metadata.resource_version for key, one in objects.items()}
