"""Chaos: pods come and go while the scheduler is killed, the API server restarted, watches cut and writes refused."""

import asyncio
import random
import re
from dataclasses import dataclass, field
from pathlib import Path

from gpuloom.kube import PODS, ApiError, KubeClient, load_kubeconfig
from gpuloom.wire.objects import Pod
from harness.accounts import Accounts, Held, ToldPod
from harness.faultyproxy import Faults
from harness.fleet import Fleet
from harness.playedplugins import PlayedPlugins

ALLOCATED_METRIC = re.compile(r"^hami_gpu_memory_allocated_bytes\{([^}]*)\} (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
MIB = 2**20
SETTLE_S = 90.0
"""So long after the last fault everything may take to be right: an abandoned lock is taken over after 35 s."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of what happens; the defaults are what CI runs."""

    pods: int = 300
    nodes: int = 6
    kills: int = 10
    api_restarts: int = 3
    watch_cuts: int = 10
    deletions: int = 60
    ends: int = 30
    pause_s: float = 2.5
    allocate_s: float = 0.05
    refused_share: float = 0.2
    lost_share: float = 0.02
    watch_lag_s: float = 0.3
    seed: int = 1


@dataclass(slots=True)
class Outcome:
    """What was found; empty lists are what is wanted."""

    over_allocated: list[str] = field(default_factory=list)
    locks_left: dict[str, str] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    bound: int = 0
    waiting: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    chaos_s: float = 0.0
    settled_s: float = 0.0

    @property
    def complaints(self) -> list[str]:
        """Everything that must not be, as text."""
        return [
            *(f"over-allocated: {one}" for one in self.over_allocated),
            *(f"lock left: {node} {value}" for node, value in self.locks_left.items()),
            *(f"waits without a reason: {name}" for name in self.silent),
            *(f"waits although there is room: {name}" for name in self.forgotten),
            *(f"usage differs: {one}" for one in self.differences),
        ]


async def run_chaos(directory: Path, plan: Plan) -> Outcome:
    """Do all of the plan on a real control plane in `directory`, wait until it has settled, and say what was found."""
    async with Fleet(directory) as fleet:
        await fleet.add_nodes(plan.nodes)
        await fleet.start_gpuloom()
        await fleet.start_kube_scheduler()
        async with (
            KubeClient(load_kubeconfig(fleet.control_plane.kubeconfig)) as plugin_client,
            Accounts(fleet.client) as accounts,
            PlayedPlugins(plugin_client, allocate_s=plan.allocate_s),
        ):
            return await _Chaos(fleet, accounts, plan).run()


class _Chaos:
    def __init__(self, fleet: Fleet, accounts: Accounts, plan: Plan):
        self._fleet = fleet
        self._accounts = accounts
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._outcome = Outcome()

    async def run(self) -> Outcome:
        clock = asyncio.get_running_loop().time
        began_s = clock()
        plan = self._plan
        self._fleet.proxy.faults = Faults(plan.refused_share, plan.lost_share, plan.watch_lag_s)
        coming = asyncio.create_task(self._let_pods_come_and_go())
        for fault in self._order_faults():
            await getattr(self, fault)()
            await asyncio.sleep(self._plan.pause_s * self._random.uniform(0.5, 1.5))
        await coming
        self._fleet.proxy.faults = Faults()
        ended_s = clock()
        await self._settle()
        outcome = self._outcome
        outcome.chaos_s, outcome.settled_s = ended_s - began_s, clock() - ended_s
        outcome.over_allocated = self._accounts.violations
        outcome.locks_left = self._accounts.locks
        outcome.silent, outcome.forgotten = self._silent(), self._forgotten()
        outcome.differences = await self._differences()
        outcome.bound, outcome.waiting = len(self._accounts.holders), len(self._accounts.waiting)
        outcome.faults |= self._fleet.proxy.counts
        return outcome

    def _order_faults(self) -> list[str]:
        plan = self._plan
        faults = ["_kill"] * plan.kills + ["_restart_apiserver"] * plan.api_restarts + ["_cut"] * plan.watch_cuts
        self._random.shuffle(faults)
        return faults

    async def _kill(self) -> None:
        self._count("scheduler killed")
        await self._fleet.kill_gpuloom()
        await self._fleet.start_gpuloom()

    async def _restart_apiserver(self) -> None:
        self._count("API server restarted")
        await asyncio.to_thread(self._fleet.control_plane.restart_apiserver)

    async def _cut(self) -> None:
        self._fleet.proxy.cut_watches()

    def _count(self, what: str) -> None:
        self._outcome.faults[what] = self._outcome.faults.get(what, 0) + 1

    async def _let_pods_come_and_go(self) -> None:
        plan = self._plan
        deeds = ["_come"] * plan.pods + ["_delete"] * plan.deletions + ["_end"] * plan.ends
        # What is to go must have come: the first third only comes.
        first, rest = deeds[: plan.pods // 3], deeds[plan.pods // 3 :]
        self._random.shuffle(rest)
        faults = plan.kills + plan.api_restarts + plan.watch_cuts
        pause_s = faults * plan.pause_s / len(deeds)
        for number, deed in enumerate([*first, *rest]):
            await self._insist(deed, number)
            await asyncio.sleep(pause_s)

    async def _insist(self, deed: str, number: int) -> None:
        while True:
            try:
                await getattr(self, deed)(number)
            except ApiError:
                # The API server may be away. Done twice, nothing is different.
                await asyncio.sleep(0.5)
            else:
                return

    async def _come(self, number: int) -> None:
        if all(pod.name != f"pod-{number}" for pod in self._accounts.pods.values()):
            await self._fleet.add_pods({f"pod-{number}": self._random.choice((512, 1024, 2048, 3072))})

    async def _delete(self, _: int) -> None:
        if pod := self._choose(self._accounts.holders):
            await self._fleet.client.delete(PODS, pod.name, namespace=pod.namespace, grace_period_s=0)

    async def _end(self, _: int) -> None:
        if pod := self._choose(self._accounts.holders):
            body = {"status": {"phase": "Succeeded"}}
            await self._fleet.client.patch(PODS, pod.name, body, namespace=pod.namespace, subresource="status")

    def _choose(self, pods: list[ToldPod]) -> ToldPod | None:
        return self._random.choice(sorted(pods, key=lambda pod: pod.name)) if pods else None

    async def _settle(self) -> None:
        """Wait until nothing is left to complain of, or until the time is over."""
        deadline_s = asyncio.get_running_loop().time() + SETTLE_S
        while asyncio.get_running_loop().time() < deadline_s:
            if not (self._accounts.locks or self._silent() or self._forgotten() or await self._differences()):
                return
            await asyncio.sleep(0.5)

    def _silent(self) -> list[str]:
        """Pods that wait and of which the API server does not say why."""
        return [pod.name for pod in self._accounts.waiting if not pod.reason]

    def _forgotten(self) -> list[str]:
        """Pods that wait although a card could take them."""
        waiting = self._accounts.waiting
        return [pod.name for pod in waiting if self._accounts.fits_somewhere(_need(pod))]

    async def _differences(self) -> list[str]:
        """Hold gpuloom's own account against the API objects."""
        held = {card: share.memory_mib for card, share in self._accounts.held().items()}
        told = read_told(await self._fleet.read_metrics())
        return [
            f"{card}: gpuloom says {told.get(card, 0)} MiB, the API objects {held.get(card, 0)} MiB"
            for card in sorted({*held, *told})
            if told.get(card, 0) != held.get(card, 0)
        ]


def read_told(metrics: str) -> dict[tuple[str, str], int]:
    """Return how much memory of each card is given away by gpuloom's metrics, in MiB."""
    told = {}
    for labels, value in ALLOCATED_METRIC.findall(metrics):
        named = dict(LABEL.findall(labels))
        told[named["node"], named["device_uuid"]] = round(float(value) / MIB)
    return told


def _need(pod: Pod) -> Held:
    return Held(1, int(str(pod.containers[0].limits["nvidia.com/gpumem"])), 0)
