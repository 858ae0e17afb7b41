"""Runs a plan on a real control plane and says what was found."""

import asyncio
import dataclasses
import random
from asyncio import Task
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from harness import clocks
from harness.accounts import Accounts
from harness.chaos.calm import Calm
from harness.chaos.faults import Faults
from harness.chaos.footprint import Footprint, Machine, find_growth
from harness.chaos.load import Load
from harness.chaos.plan import Outcome, Plan
from harness.chaos.plugins import Plugins
from harness.chaos.promises import Promises
from harness.chaos.shapes import BY_NAME, Rooms, read_shape
from harness.clocks import SteppedClock
from harness.fleet import Fleet, read_url
from harness.replicas import Replica
from harness.told import read_told

CARD_MIB = 10_000
RARE_COLLECTIONS = {"GOGC": "400"}
"""Kubernetes' programs, all in Go, share the processors with what is looked at, and memory is not short."""
SETTLE_S = 120.0
"""So long after the last fault everything may take to be right: an abandoned lock is taken over after 35 s."""
TELL_S = 10.0
TOLD_AT_ONCE = 5
NAMES = ("replica-a", "replica-b")


async def run_chaos(
    directory: Path, plan: Plan, *, stop: asyncio.Event | None = None, tell: Callable[[str], object] = print
) -> Outcome:
    """Do all of the plan on a real control plane in `directory`, wait until it has settled, and say what was found.

    `stop` ends it early, with what was found until then; `tell` gets a line of progress every ten seconds.
    """
    async with _Run.open(directory, plan) as run:
        return await run.run(stop or asyncio.Event(), tell)


class _Run:
    """Everything that a plan needs, running."""

    def __init__(self, fleet: Fleet, accounts: Accounts, replicas: list[Replica], plan: Plan):
        self._fleet, self._accounts, self._replicas, self._plan = fleet, accounts, replicas, plan
        draw = random.Random(plan.seed)
        clock = asyncio.get_running_loop().time
        self.calm = Calm(lambda: accounts.busy, clock)
        self._rooms = Rooms(BY_NAME[plan.shapes])
        self.promises = Promises(accounts, self.calm, self._rooms, clock)
        self._load = Load(fleet.client, plan, card_mib=CARD_MIB, draw=random.Random(draw.random()))
        self._machine = Machine()
        self._footprint = Footprint(self._find_processes)
        self._draw = random.Random(draw.random())
        self._faults: Faults
        accounts.followers += [self.promises, self._load]
        for node in accounts.nodes:
            self.promises.see_node(node)

    @classmethod
    @asynccontextmanager
    async def open(cls, directory: Path, plan: Plan) -> "AsyncIterator[_Run]":
        """Start everything."""
        async with AsyncExitStack() as stack:
            fleet = await stack.enter_async_context(
                Fleet(directory, cards=plan.cards, memory_mib=CARD_MIB, environment=RARE_COLLECTIONS)
            )
            await fleet.add_nodes(plan.nodes)
            replicas = [
                await stack.enter_async_context(_make_replica(fleet, directory, name, plan))
                for name in NAMES[: plan.replicas]
            ]
            accounts = await stack.enter_async_context(Accounts(fleet.client))
            run = cls(fleet, accounts, replicas, plan)
            plugins = await stack.enter_async_context(
                Plugins(fleet.control_plane.kubeconfig, directory / "plugins", plan, run.promises.hear)
            )
            run._faults = Faults(fleet, accounts, replicas, plugins, run.calm, run._rooms, plan, run._draw)
            stack.push_async_callback(run._faults.close)
            yield run

    async def run(self, stop: asyncio.Event, tell: Callable[[str], object]) -> Outcome:
        """Let pods come and go while things fail, then settle."""
        clock = asyncio.get_running_loop().time
        began_s = clock()
        until_s = began_s + self._plan.duration_s
        watching = [
            asyncio.create_task(one)
            for one in (
                self.promises.watch(),
                self._footprint.watch(),
                self._faults.restart_what_ends(),
                self._tell(tell, began_s),
            )
        ]
        working = [asyncio.create_task(one) for one in (self._load.run(), self._do_damage(until_s))]
        stopping = asyncio.create_task(stop.wait())
        try:
            await _first_of(stopping, working, watching)
            ended_s = clock()
            if not stop.is_set():
                await self._settle()
            return await self._judge(ended_s - began_s, clock() - ended_s, is_interrupted=stop.is_set())
        finally:
            for task in (*watching, *working, stopping):
                task.cancel()
            await asyncio.gather(*watching, *working, stopping, return_exceptions=True)

    async def _do_damage(self, until_s: float) -> None:
        """Let things fail until then; pods come and go until the last fault is made good."""
        await self._faults.run(until_s)
        self._load.stop()

    async def _settle(self) -> None:
        """Wait until nothing is left to complain of, or until the time is over."""
        deadline_s = asyncio.get_running_loop().time() + SETTLE_S
        while asyncio.get_running_loop().time() < deadline_s:
            if not await self._find_left():
                return
            await asyncio.sleep(0.5)

    async def _find_left(self) -> list[str]:
        """Return what must not be left when everything has settled."""
        waiting = self._accounts.waiting
        with_room = [pod.name for pod in waiting if self._rooms.since_s(read_shape(pod)) is not None]
        return [
            *(f"lock left: {node} {value}" for node, value in self._accounts.locks.items()),
            *(f"lost grant: {name} is bound and was not served" for name in self.promises.unserved),
            *(f"waits without a reason: {pod.name}" for pod in waiting if not pod.reason),
            *(f"waits although there is room: {name}" for name in with_room),
            *(f"usage differs: {one}" for one in await self._find_differences()),
        ]

    async def _find_differences(self) -> list[str]:
        """Hold the own account of every scheduler against the API objects."""
        held = {card: share.memory_mib for card, share in self._accounts.held().items()}
        differences = []
        for replica in self._replicas:
            told = read_told(await asyncio.to_thread(read_url, replica.metrics_url))
            differences += [
                f"{card}: {replica.name} says {told.get(card, 0)} MiB, the API objects {held.get(card, 0)} MiB"
                for card in sorted({*held, *told})
                if told.get(card, 0) != held.get(card, 0)
            ]
        return differences

    async def _judge(self, took_s: float, settled_s: float, *, is_interrupted: bool) -> Outcome:
        promises, faults, load = self.promises, self._faults, self._load
        left = [] if is_interrupted else await self._find_left()
        growth = find_growth(self._footprint.samples, took_s)
        grown = [f"not flat: {one}" for one in growth if not one.is_flat]
        counts = Counter({"pods created": load.created, "pods removed": load.removed, "pods not created": load.missed})
        counts += promises.counts + self._fleet.proxy.counts
        counts.update({f"fault {fault}": count for fault, count in faults.counts.items()})
        longest = {f"longest {what}, s": took_s for what, took_s in promises.longest_s.items()}
        offsets_s = promises.clock_offsets_s or [0.0]
        figures = {
            "seconds": took_s,
            "seconds calm": self.calm.calm_s,
            "machine idle, %": 100 * self._machine.idle_share(),
            "seconds to settle": settled_s,
            "pods a second": load.created / took_s,
            "pods bound at the end": float(len(self._accounts.holders)),
            "pods waiting at the end": float(len(self._accounts.waiting)),
            "earliest clock in a lock, s": min(offsets_s),
            "latest clock in a lock, s": max(offsets_s),
            **longest,
        }
        return Outcome(
            plan=self._plan,
            complaints=[*promises.complaints, *faults.complaints, *left, *grown],
            counts=dict(counts),
            figures=figures,
            disturbances_s=self.calm.longest_s,
            refusals=dict(promises.refusals),
            growth=growth,
            series=[dataclasses.asdict(sample) for sample in self._footprint.samples],
            is_interrupted=is_interrupted,
        )

    async def _tell(self, tell: Callable[[str], object], began_s: float) -> None:
        clock = asyncio.get_running_loop().time
        told: set[str] = set()
        while True:
            await asyncio.sleep(TELL_S)
            promises, load = self.promises, self._load
            new = [complaint for complaint in promises.complaints if complaint not in told]
            told.update(new)
            for complaint in new[:TOLD_AT_ONCE]:
                tell(f"{clock() - began_s:6.0f} s: {complaint}")
            tell(
                f"{clock() - began_s:6.0f} s: created {load.created}, bound {promises.counts['pods bound']}, "
                f"served {promises.counts['Allocates served']}, waiting {len(self._accounts.waiting)}, "
                f"faults {self._faults.counts.total()}, calm {self.calm.calm_s:.0f} s"
                f"{'' if self.calm.since_s is None else ' (now)'}, complaints {len(promises.complaints)}"
            )

    def _find_processes(self) -> dict[str, int]:
        """The process ids of gpuloom's schedulers that run now."""
        return {one.name: one.gpuloom.pid for one in self._replicas if one.gpuloom is not None}


def _make_replica(fleet: Fleet, directory: Path, name: str, plan: Plan) -> Replica:
    clock = None
    if "step_clock" in plan.faults and clocks.describe_obstacle() is None:
        clock = SteppedClock(directory / f"{name}.clock")
    return Replica(
        fleet,
        directory / name,
        name,
        elects=plan.replicas > 1,
        kubeconfig=fleet.kubeconfig,
        clock=clock,
        settings={"percentageOfNodesToScore": plan.offered, "podMaxBackoffSeconds": plan.backoff_s},
    )


async def _first_of(stopping: Task[bool], working: Sequence[Task[None]], watching: Sequence[Task[None]]) -> None:
    """Wait for a stop or the end of the work; raise what any of them raised, and what ended a watch."""
    left: set[Task[Any]] = {*working}
    while left and not stopping.done():
        done, _ = await asyncio.wait({stopping, *left, *watching}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        left -= done
