"""Whether HAMi-core keeps its promises: limits of memory and cores, regions that tell the truth, priorities."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from gpuloom.local.selftest.comparing import ReportedUse, check_cores, check_priority, check_regions
from gpuloom.local.selftest.grants import ContainerGrant
from gpuloom.local.selftest.processes import Launcher, Program, run_worker
from gpuloom.local.selftest.report import StepFailedError
from gpuloom.local.selftest.trialpods import CORES_PERCENT, TrialPod, TrialPods
from gpuloom.node.monitor.cards import CardUse
from gpuloom.node.monitor.region import DeviceUse
from gpuloom.node.monitor.rounds import Rounds

BYTES_PER_MIB = 2**20
TOGETHER = 4
_PRIORITY = "nvidia.com/priority"
_PARTS = 6
"""The monitor looks so often in the time in which cores are measured: every 5 s of 30 s, as on a node."""

_ROUNDS_TO_BLOCK, _ROUNDS_TO_FREE, _ROUNDS_MEASURED = 2, 3, 2


@dataclass(frozen=True, slots=True)
class Yardstick:
    """How many kernels of so many turns a program runs in a second that nothing limits."""

    turns: int
    a_second: float

    def measure(self, launches: float, seconds: float) -> float:
        """Return a pace in per cent of this one."""
        return 100 * launches / seconds / self.a_second if seconds > 0 else 0.0


class LimiterTrial:
    """Programs with HAMi-core in pods of `share_mib` each, started by `launcher`; cores are measured for `seconds`."""

    def __init__(
        self,
        pods: TrialPods,
        launcher: Launcher,
        read_use: Callable[[], Awaitable[Mapping[str, CardUse]]],
        share_mib: int,
        seconds: float,
    ) -> None:
        self._pods = pods
        self._launcher = launcher
        self._read_use = read_use
        self._share_mib = share_mib
        self._seconds = seconds
        self._period_s = seconds / _PARTS
        self._yardstick: Yardstick | None = None

    async def exceed(self, given: ContainerGrant) -> str:
        """Let a program ask for twice its share of memory."""
        share = self._share_mib * BYTES_PER_MIB
        async with run_worker(self._launcher, given, share * 2) as program:
            seen = program.seen
        if seen.error:
            raise StepFailedError(seen.error)
        if seen.is_taken:
            raise StepFailedError(f"a program took {2 * self._share_mib} MiB of {self._share_mib} MiB")
        if seen.total_bytes != share:
            raise StepFailedError(f"a program is told {seen.total_bytes} bytes of memory, its limit is {share}")
        return f"a program sees {self._share_mib} MiB and cannot take {2 * self._share_mib} MiB"

    async def compare_regions(self, given: Sequence[ContainerGrant]) -> str:
        """Hold what the monitor reads of regions against what NVML tells of the programs."""
        size = self._share_mib // 2 * BYTES_PER_MIB
        before = await self._read_use()
        async with AsyncExitStack() as stack:
            programs = [await stack.enter_async_context(run_worker(self._launcher, one, size)) for one in given]
            for program in programs:
                if not program.seen.is_taken:
                    raise StepFailedError(program.seen.error or "a program cannot take half of its share")
            during = await self._read_use()
            regions = await self._read_regions(given)
        told = [
            ReportedUse(
                one.card,
                program.pid,
                region,
                _find_memory(during[one.card], program.pid),
                (during[one.card].memory_used_bytes or 0) - (before[one.card].memory_used_bytes or 0),
            )
            for one, program, region in zip(given, programs, regions, strict=True)
        ]
        check_regions(told, size, self._share_mib * BYTES_PER_MIB)
        return f"{len(told)} regions tell what NVML tells, {size // BYTES_PER_MIB} MiB of data each"

    async def submit_quarters(self, card: str) -> list[ContainerGrant]:
        """End the pods that are there, and let four share one card; the first has the highest priority."""
        await self._pods.clear()
        more = [{_PRIORITY: "0"}, *[{_PRIORITY: "1"}] * (TOGETHER - 1)]
        quarters = [TrialPod(f"quarter-{at}", self._share_mib, card, each) for at, each in enumerate(more)]
        return await self._pods.submit(quarters, {card})

    async def hold_cores(self, given: Sequence[ContainerGrant]) -> str:
        """Measure a program alone without a limit and with one, and then all with theirs."""
        stick = self._yardstick = await self._find_yardstick(given[0])
        (alone,) = await self._measure_together(given[:1], stick, self._seconds / 3)
        together = await self._measure_together(given, stick, self._seconds)
        check_cores(alone, together, CORES_PERCENT)
        return (
            f"of the pace without a limit, a program of {CORES_PERCENT} % has {alone:.0f} % alone, and each of "
            f"{len(given)} on one card has {min(together):.0f} to {max(together):.0f} % in {self._seconds:g} s"
        )

    async def feel_priorities(self, given: Sequence[ContainerGrant]) -> str:
        """Let a program of low priority compute beside one of high priority, and after it."""
        stick = self._yardstick or await self._find_yardstick(given[0])
        high, low = given[:2]
        rounds, pods = Rounds(self._pods.containers_dir, _PRIORITY), await self._pods.list_pods()

        async def look(times: int) -> None:
            for _ in range(times):
                await asyncio.sleep(self._period_s)
                await rounds.make(pods, with_feedback=True)

        async def measure(program: Program) -> float:
            before = await program.read_progress()
            await look(_ROUNDS_MEASURED)
            after = await program.read_progress()
            return stick.measure(after.launches - before.launches, after.at_s - before.at_s)

        async with run_worker(self._launcher, low, BYTES_PER_MIB) as patient:
            await patient.spin(stick.turns)
            async with run_worker(self._launcher, high, BYTES_PER_MIB) as urgent:
                await urgent.spin(stick.turns)
                await look(_ROUNDS_TO_BLOCK)
                blocked = await measure(patient)
            await look(_ROUNDS_TO_FREE)
            freed = await measure(patient)
        check_priority(blocked, freed)
        return (
            f"a program of low priority has {blocked:.0f} % of the pace without a limit beside one of high priority, "
            f"and {freed:.0f} % after it"
        )

    async def _find_yardstick(self, given: ContainerGrant) -> Yardstick:
        async with run_worker(self._launcher, replace(given, library=None), BYTES_PER_MIB) as program:
            turns = await program.calibrate()
            await program.spin(turns)
            a_second = await _measure(program, self._period_s)
        if a_second <= 0:
            raise StepFailedError(f"without a limit a program runs no kernel within {self._period_s:g} s")
        return Yardstick(turns, a_second)

    async def _measure_together(
        self, given: Sequence[ContainerGrant], stick: Yardstick, seconds: float
    ) -> Sequence[float]:
        """Return the pace of programs that compute at the same time; a limiter has some time to find its way."""
        async with AsyncExitStack() as stack:
            programs = [
                await stack.enter_async_context(run_worker(self._launcher, one, BYTES_PER_MIB)) for one in given
            ]
            for program in programs:
                await program.spin(stick.turns)
            await asyncio.sleep(self._period_s)
            paces = await asyncio.gather(*(_measure(program, seconds) for program in programs))
        return [stick.measure(pace, 1.0) for pace in paces]

    async def _read_regions(self, given: Sequence[ContainerGrant]) -> Sequence[DeviceUse]:
        rounds = Rounds(self._pods.containers_dir, _PRIORITY)
        found = await rounds.make(await self._pods.list_pods(), with_feedback=False)
        regions = {one.pod: one.devices for one in found.containers}
        missing = [one.pod for one in given if [each.uuid for each in regions.get(one.pod, ())] != [one.card]]
        if missing:
            raise StepFailedError(f"the monitor reads no region of the card in pod {', '.join(missing)}")
        return [regions[one.pod][0] for one in given]


async def _measure(program: Program, seconds: float) -> float:
    """Return how many kernels a program runs in a second."""
    before = await program.read_progress()
    await asyncio.sleep(seconds)
    after = await program.read_progress()
    return (after.launches - before.launches) / (after.at_s - before.at_s)


def _find_memory(use: CardUse, pid: int) -> int | None:
    return next((process.memory_bytes for process in use.processes if process.pid == pid), None)
