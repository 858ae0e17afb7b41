"""Keeps the outlook of the cluster up to date: learns the pods to come from those that are seen, and counts nodes' CPU.

The engine is told only while pods are placed by a policy that looks at it: CPU just before such a decision, other pods
to come once in a while, because every cost that is remembered is worked out anew then.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import structlog

from gpuloom.engine.filtering.fragmentation_view import foresee
from gpuloom.engine.hostfit.requests import CPU, MOST_CPU_MILLI, read_allocatable, read_cpu_milli
from gpuloom.engine.request.demand import Demand, Demands
from gpuloom.engine.scoring.fragmentation.card_value import waste_of_rests
from gpuloom.engine.scoring.fragmentation.learner import PodLearner
from gpuloom.engine.scoring.fragmentation.pod_mix import ANY_VENDOR, ExpectedShape, PodMix
from gpuloom.engine.scoring.fragmentation.usual_mix import USUAL_MIX
from gpuloom.engine.scoring.policies import read_node_policy
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.engine.state.outlook import HostCpu
from gpuloom.model.cards import WHOLE_CARD
from gpuloom.model.request import PERCENTAGE_NOT_SET
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.outlook.decided import DecidedCpu
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.timeslice import TimeSlice
from gpuloom.wire.objects import Pod

_log = structlog.get_logger(__name__)

_MOST_CARDS, _MOST_MIB = 1024, 2**31 - 1
"""Larger requests fit nowhere, and count as these."""
_MOST_MODELS, _LONGEST_MODEL = 16, 64
"""Of more models, and of longer names, the beginning counts: shapes are kept long after their pods are gone."""

OutlookNote = Callable[[PodMix | None, Mapping[str, HostCpu | None]], None]
"""Takes what the engine is told: the pods to come, None for the same as before, and the CPU of nodes that changed."""


def _tell_nobody(mix: PodMix | None, cpu: Mapping[str, HostCpu | None]) -> None:
    del mix, cpu


class OutlookKeeper:
    """Learns, and tells the engine.

    is_in_use  whether any pod was placed by a policy that looks at the outlook
    note       is told what the engine is told, for a recording
    """

    def __init__(self, state: SchedulerState, clocks: Clocks, note: OutlookNote = _tell_nobody) -> None:
        self._state = state
        self._clocks = clocks
        given = state.settings.workload
        self._is_given = given is not None
        self._decided = DecidedCpu(state.cluster.ledger, state.shown.hosts)
        self.learner = PodLearner(state.settings.workload_window_s)
        self.is_in_use = read_node_policy(state.settings.node_scheduler_policy).looks_ahead
        self.note = note
        self._touched: set[str] | None = None
        if given is not None:
            state.cluster.outlook.expect(given)

    def see(self, pod: Pod, demands: Demands) -> None:
        """Count a pod that asks for cards, once, while anybody wants to know."""
        if demands and self.is_in_use and not self._is_given and not self.learner.has_seen(pod.metadata.uid):
            word, demand = next(iter(demands.items()))
            self.learner.see(pod.metadata.uid, shape_of_demand(word, demand, pod), self._clocks.monotonic())

    def refresh_cpu(self, demands: Demands) -> None:
        """Tell the engine the CPU of nodes that changed, before a decision by a policy that looks at it."""
        if not any(demand.preferences.node_policy.looks_ahead for demand in demands.values()):
            return
        self.is_in_use = True
        self._decided.refresh()
        if not (self._state.shown.hosts.is_complete and self._state.settings.count_node_cpu):
            return
        touched = self._take_touched()
        self.tell(None, {name: cpu for name in touched if self._has_changed(name, cpu := self._read_cpu(name))})

    def _take_touched(self) -> list[str]:
        """Return the nodes whose CPU may have changed since the last refresh; all at the first, which begins it."""
        if self._touched is None:
            known = (node for node, _ in self._state.cluster.outlook.known_cpu())
            self._touched = {*self._state.shown.nodes, *known}
            self._state.shown.hosts.follow(partial(self._note_touched, self._touched))
        touched = sorted(self._touched)
        self._touched.clear()
        return touched

    def _note_touched(self, touched: set[str], node: str) -> None:
        """Keep a node until the next refresh, if any: so only one that is there, or whose CPU is known."""
        if node in self._state.shown.nodes or self._state.cluster.outlook.find_cpu(node) is not None:
            touched.add(node)
        else:
            touched.discard(node)

    def note_decided(self, pod: Pod, node: str) -> None:
        """Take that a pod will be bound to a node: others of a burst are placed before anybody sees it bound."""
        if self.is_in_use and self._state.settings.count_node_cpu:
            self._decided.note(pod.metadata.uid, node, read_cpu_milli(pod))

    def tell(self, mix: PodMix | None, cpu: Mapping[str, HostCpu | None]) -> None:
        """Tell the engine, and whoever records."""
        cluster = self._state.cluster
        if mix is None and not cpu:
            return
        if mix is not None:
            cluster.outlook.expect(mix)
        for node, amounts in cpu.items():
            cluster.set_cpu(node, amounts)
        self.note(mix, cpu)

    def _has_changed(self, node: str, cpu: HostCpu | None) -> bool:
        return cpu != self._state.cluster.outlook.find_cpu(node)

    def _read_cpu(self, name: str) -> HostCpu | None:
        node = self._state.shown.nodes.get(name)
        if node is None:
            return None
        capacity = read_allocatable({CPU: (node.status.allocatable or {}).get(CPU, 0)}).get(CPU, 0)
        capacity = min(max(capacity, 0), MOST_CPU_MILLI)
        taken = self._state.shown.hosts.on(name).amounts.get(CPU, 0) + self._decided.on(name)
        return HostCpu(max(capacity - taken, 0), capacity)

    async def run(self) -> None:
        """Learn until cancelled."""
        usual = USUAL_MIX.of_vendor(ANY_VENDOR, (), 0)
        if usual is not None:
            # Remembered from now on: the first decision by this policy need not wait for it.
            await asyncio.to_thread(waste_of_rests, usual)
        await self._clocks.every(self._state.settings.workload_interval_s, self.learn)

    async def learn(self) -> None:
        """Count the pods that are there and were not counted, and expect what was learned, if anybody wants to know."""
        if self._is_given or not self.is_in_use:
            return
        await self._count_with_cards()
        await self._count_without_cards()
        mix = self.learner.mix(self._clocks.monotonic())
        if mix is None or mix == self._state.cluster.outlook.mix:
            return
        for word, scheduler in self._state.pod_scheduler.by_vendor.items():
            table = self._state.cluster[word].table
            if table.positions:
                # Solved here it would keep others waiting; what it comes to is remembered.
                await asyncio.to_thread(waste_of_rests, foresee(scheduler.profile.word, table, mix))
        if self._state.charge.is_ours:
            self.tell(mix, {})
        _log.info("other pods are expected", pods=mix.pods, shapes=len(mix.counts))

    async def _count_with_cards(self) -> None:
        time_slice = TimeSlice()
        for uid, pod in list(self._state.shown.pods.items()):
            if not self.learner.has_seen(uid):
                with suppress(PolicyError):
                    demands = self._state.settings.read_demands(pod)
                    if demands:
                        self.see(pod, demands)
            await time_slice.yield_if_over()

    async def _count_without_cards(self) -> None:
        """Count pods without cards on nodes with cards: only these take CPU there."""
        time_slice = TimeSlice()
        for node in list(self._state.cluster.nodes):
            for uid, footprint in list(self._state.shown.hosts.on(node).pods.items()):
                if uid not in self._state.shown.pods:
                    shape = ExpectedShape(cpu_milli=min(dict(footprint.amounts).get(CPU, 0), MOST_CPU_MILLI))
                    self.learner.see(uid, shape, self._clocks.monotonic())
            await time_slice.yield_if_over()


def shape_of_demand(word: str, demand: Demand, pod: Pod) -> ExpectedShape:
    """Return the shape of a pod that asks for cards: of several containers that of the one that is placed first."""
    request, selector = demand.placed_first, demand.selector
    return ExpectedShape(
        vendor=word,
        cpu_milli=read_cpu_milli(pod),
        cards=min(request.cards, _MOST_CARDS),
        memory_mib=min(request.memory_mib, _MOST_MIB),
        memory_percent=0 if request.memory_percentage == PERCENTAGE_NOT_SET else request.memory_percentage,
        cores=min(request.cores, WHOLE_CARD),
        models=_shorten(selector.use_types or ()),
        not_models=_shorten(selector.nouse_types),
    )


def _shorten(models: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(model[:_LONGEST_MODEL] for model in models[:_MOST_MODELS])
