"""The damage: each fault by its name, and what has to work again before it is made good."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from http.client import HTTPException

from harness.accounts import Accounts
from harness.api import ApiCallError
from harness.chaos.calm import Calm
from harness.chaos.plan import Plan
from harness.chaos.plugins import Plugins
from harness.chaos.shapes import Rooms, read_shape
from harness.faultyproxy import Faults as ProxyFaults
from harness.fleet import Fleet
from harness.replicas import Replica, find_holder

RECOVERY_LIMIT_S = 120.0
STEP_LIMIT_S = 2.0
AWAY_S = 2.0
LAST_WRITES_S = 1.0
POLL_S = 0.2
RESTART_S = 1.0
REFUSING = {"refused_share": 0.2}
LOSING = {"lost_share": 0.02}
LAGGING = {"watch_lag_s": 0.3}


class Faults:
    """Does what a plan says, fault after fault; `counts` of what was done, `complaints` of what did not recover."""

    def __init__(
        self,
        fleet: Fleet,
        accounts: Accounts,
        replicas: Sequence[Replica],
        plugins: Plugins,
        calm: Calm,
        rooms: Rooms,
        plan: Plan,
        draw: random.Random,
    ):
        """Prepare. The gpuloom of the last replica is never killed where there are two, so that its memory tells."""
        self.counts: Counter[str] = Counter()
        self.complaints: list[str] = []
        self._fleet = fleet
        self._accounts = accounts
        self._replicas = replicas
        self._plugins = plugins
        self._calm = calm
        self._rooms = rooms
        self._plan = plan
        self._draw = draw
        self._deck: list[str] = []
        self._recovering: set[asyncio.Task[None]] = set()
        self._deeds: dict[str, Callable[[], Awaitable[None]]] = {
            "crash_gpuloom": self._crash_gpuloom,
            "lose_leader": self._lose_leader,
            "hand_over": self._hand_over,
            "restart_api_server": self._restart_api_server,
            "kill_plugins": self._kill_plugins,
            "cut_watches": self._cut_watches,
            "expire_watches": self._expire_watches,
            "step_clock": self._step_clock,
            "refuse_writes": lambda: self._burst("writes refused", REFUSING),
            "lose_answers": lambda: self._burst("answers lost", LOSING),
            "delay_watches": lambda: self._burst("watches late", LAGGING),
        }

    async def run(self, until_s: float) -> None:
        """Do damage until then, in seconds of the loop's clock, and let everything recover."""
        clock = asyncio.get_running_loop().time
        plan, proxy = self._plan, self._fleet.proxy
        if plan.always:
            proxy.faults = ProxyFaults(**REFUSING, **LOSING, **LAGGING)
        while clock() < until_s:
            for _ in range(plan.at_once):
                await asyncio.sleep(plan.pause_s * self._draw.uniform(0.5, 1.5))
                if clock() < until_s:
                    await self._deeds[self._draw_fault()]()
            await asyncio.sleep(min(plan.rest_s, max(until_s - clock(), 0.0)))
        proxy.faults = ProxyFaults()
        if self._recovering:
            await asyncio.wait(self._recovering)

    async def restart_what_ends(self) -> None:
        """Start again what ends by itself, as kubelets do, until cancelled. gpuloom never does that."""
        while True:
            await asyncio.sleep(RESTART_S)
            for replica in self._replicas:
                if ended := await replica.restart_what_ended():
                    self.counts[f"{ended} ended by itself"] += 1
                if "gpuloom" in ended:
                    self.complaints.append(f"gpuloom of {replica.name} ended by itself")

    async def close(self) -> None:
        """End what still waits for a recovery."""
        for task in self._recovering:
            task.cancel()
        await asyncio.gather(*self._recovering, return_exceptions=True)

    def _draw_fault(self) -> str:
        if not self._deck:
            self._deck = [fault for fault, count in self._plan.faults.items() for _ in range(count)]
            self._draw.shuffle(self._deck)
        fault = self._deck.pop()
        self.counts[fault] += 1
        return fault

    async def _crash_gpuloom(self) -> None:
        """Gpuloom's container ends and is started again; its kube-scheduler goes on, and so does its lease."""
        replica = self._replicas[0]
        # The loss of one that does not lead is to disturb nobody.
        is_leader = await self._find_leader() in {None, replica}
        async with self._disturb("gpuloom crashed") if is_leader else nullcontext():
            await replica.kill_gpuloom()
            await replica.start_gpuloom()

    async def _lose_leader(self) -> None:
        """The leading pod is lost with its node: its lease has to run out. It comes back a moment later."""
        leader = await self._find_leader()
        async with self._disturb("leader lost"):
            if leader is self._replicas[0]:
                await leader.kill()
            elif leader is not None:
                await leader.kill_kube_scheduler()
            await asyncio.sleep(AWAY_S)
            for replica in self._replicas:
                await replica.start()

    async def _hand_over(self) -> None:
        """The leading kube-scheduler is ended politely, as by an update: it gives its lease back."""
        leader = await self._find_leader()
        async with self._disturb("leader handed over"):
            if leader is not None:
                await leader.stop_kube_scheduler()
                await leader.start_kube_scheduler()

    async def _restart_api_server(self) -> None:
        async with self._disturb("API server away"):
            await asyncio.to_thread(self._fleet.control_plane.stop_apiserver)
            await asyncio.sleep(AWAY_S)
            await asyncio.to_thread(self._fleet.control_plane.start_apiserver)

    async def _kill_plugins(self) -> None:
        async with self._disturb("plugins killed"):
            await self._plugins.kill()
            await self._plugins.start()

    async def _cut_watches(self) -> None:
        self._fleet.proxy.cut_watches()

    async def _expire_watches(self) -> None:
        self._fleet.proxy.expire_watches()

    async def _step_clock(self) -> None:
        clock = self._draw.choice(self._replicas).clock
        if clock is not None:
            clock.step_to(self._draw.uniform(-STEP_LIMIT_S, STEP_LIMIT_S))

    async def _burst(self, what: str, faults: dict[str, float]) -> None:
        proxy = self._fleet.proxy
        async with self._calm.disturbed(what):
            proxy.faults = ProxyFaults(**faults)
            await asyncio.sleep(self._plan.burst_s)
            proxy.faults = ProxyFaults()

    @asynccontextmanager
    async def _disturb(self, what: str) -> AsyncIterator[None]:
        """Take the deed inside for a disturbance, which lasts until pods are bound again."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._calm.disturbed(what))
            yield
            task = asyncio.create_task(self._recover(what, stack.pop_all()))
        self._recovering.add(task)
        task.add_done_callback(self._recovering.discard)

    async def _recover(self, what: str, stack: AsyncExitStack) -> None:
        async with stack:
            try:
                async with asyncio.timeout(RECOVERY_LIMIT_S):
                    await self._wait_until_bound()
                    await self._wait_until_served()
            except TimeoutError:
                if self._plan.always:
                    # There is nothing to recover to; what is left is judged in the end.
                    return
                left = len(self._find_waiting())
                self.complaints.append(
                    f"no recovery: {left} pods wait although there is room {RECOVERY_LIMIT_S:.0f} s after {what}"
                )

    async def _wait_until_bound(self) -> None:
        while await self._find_leader() is None:  # noqa: ASYNC110 - the lease is another program's
            await asyncio.sleep(POLL_S)
        # What an old leader sent before it ended is not yet a recovery.
        await asyncio.sleep(LAST_WRITES_S)
        led_s = asyncio.get_running_loop().time()
        await self._accounts.wait_for(lambda: self._accounts.last_bound_s >= led_s, timeout_s=RECOVERY_LIMIT_S)

    async def _wait_until_served(self) -> None:
        """Wait until those that have come to wait meanwhile have a node, or no room."""
        backlog = self._find_waiting()
        while backlog:
            await asyncio.sleep(POLL_S)
            backlog &= self._find_waiting()

    def _find_waiting(self) -> set[str]:
        """Return the pods that wait although there is room, by UID."""
        waiting = self._accounts.waiting
        return {pod.metadata.uid for pod in waiting if self._rooms.since_s(read_shape(pod)) is not None}

    async def _find_leader(self) -> Replica | None:
        """Return the replica that holds the lease; the only one always leads. None when that cannot be said."""
        if len(self._replicas) == 1:
            return self._replicas[0]
        try:
            holder = await asyncio.to_thread(find_holder, self._fleet)
        except (OSError, ApiCallError, HTTPException):
            return None
        return next((one for one in self._replicas if holder.startswith(f"{one.name}_")), None)
