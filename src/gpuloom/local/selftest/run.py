"""The steps of a self-test, one after the other; each needs those before it."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gpuloom import __version__
from gpuloom.engine.explanation.counting import tell_count
from gpuloom.local.cluster import LocalCluster, LocalClusterError
from gpuloom.local.description import ClusterDescription, NodeDescription
from gpuloom.local.selftest import smi
from gpuloom.local.selftest.comparing import check_cards, check_use, check_worker
from gpuloom.local.selftest.containerd import AUTO, OFF, NoContainersError
from gpuloom.local.selftest.dividing import try_dividing
from gpuloom.local.selftest.grants import ContainerGrant
from gpuloom.local.selftest.launching import install_limiter, name_by_cdi, open_containers
from gpuloom.local.selftest.limiting import BYTES_PER_MIB, LimiterTrial
from gpuloom.local.selftest.plain import PlainProcesses, keep_lock_folder
from gpuloom.local.selftest.processes import Launcher, run_worker
from gpuloom.local.selftest.report import SelfTestReport, SkipStepError, StepFailedError, TestedCard
from gpuloom.local.selftest.trialpods import CORES_PERCENT, TrialPod, TrialPods
from gpuloom.node.errors import CardReadError
from gpuloom.node.monitor.cards import CardUse
from gpuloom.node.monitor.nvidia import NvidiaCardUse
from gpuloom.node.nvidia import DriverNvml
from gpuloom.node.nvml import Gpu

CORES_MEASURED_S = 30.0
_NODE = "selftest"
_PODS = ("one", "two")
_LIMITS = ("limit of memory", "regions", "limit of cores", "priorities")
_MOST_SHARE_MIB = 1024
_SHARES_OF_A_CARD = 10
_WAIT_S = 60.0


class SelfTest:
    """One self-test of this machine over `nvml`; ``library`` is the module ``pynvml``.

    `directory` gets all files, and its path must be short. `limiter` is HAMi-core's library, None without one; with it
    cores are measured for `seconds`. `containerd` is ``auto``, ``off``, or the socket of that which must run the
    programs. A card is divided (MIG) for a moment only if it `may_divide`.
    """

    def __init__(
        self,
        nvml: DriverNvml,
        library: Any,
        directory: Path,
        *,
        limiter: Path | None = None,
        seconds: float = CORES_MEASURED_S,
        containerd: str = AUTO,
        may_divide: bool = False,
    ) -> None:
        self._nvml = nvml
        self._library = library
        self._directory = directory
        self._limiter = limiter
        self._seconds = seconds
        self._containerd = containerd
        self._launcher: Launcher = PlainProcesses()
        self._may_divide = may_divide
        self._gpus: tuple[Gpu, ...] = ()
        self._unconnected = ""
        self._share_mib = 0
        self._report = SelfTestReport(
            gpuloom=__version__,
            date=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
            python_library=version("nvidia-ml-py"),
            limiter=limiter.name if limiter else "",
        )

    async def run(self) -> SelfTestReport:
        """Return what was found.

        Raises DriverMissingError without a driver, and CardReadError when the driver does not answer at the start.
        """
        await self._describe()
        with self._report.step("cards") as found:
            found.extend([self._unconnected] if self._unconnected else [])
            check_cards(self._gpus, self._report.cards, await smi.read_cards())
            they = "it" if len(self._gpus) == 1 else "them"
            found.append(f"{_say_cards(len(self._gpus))} as nvidia-smi tells {they}")
        async with AsyncExitStack() as stack:
            node = NodeDescription(_NODE, self._nvml)
            with self._report.step("containers") as found:
                found.append(await self._open_containers(stack))
                node = replace(node, injection=name_by_cdi())
            cluster = LocalCluster(ClusterDescription((node,)), self._directory, backoff_initial_s=0.2)
            with self._report.step("device plugin") as found:
                found.append(await self._start(stack, cluster))
            if not self._report.has_failed:
                await self._share(cluster)
        with self._report.step("dividing") as found:
            if not self._may_divide:
                raise SkipStepError("without --allow-mig no card is divided")
            found.append(await try_dividing(self._nvml, self._gpus))
        with self._report.step("health") as found:
            found.append(await self._look_again())
        return self._report

    async def _describe(self) -> None:
        self._gpus = await self._nvml.read_gpus()
        self._report.driver = await self._nvml.read_version()
        links = await self._count_links()
        self._report.cards = [
            TestedCard(gpu.uuid, gpu.name, gpu.memory_mib, gpu.pci_bus_id, gpu.numa, links.get(gpu.uuid))
            for gpu in self._gpus
        ]

    async def _count_links(self) -> Mapping[str, int]:
        """Return the number of NVLinks by UUID, nothing where the driver does not tell how cards are connected."""
        try:
            links = (await self._nvml.read_interconnect([gpu.uuid for gpu in self._gpus])).links
        except CardReadError as error:
            self._unconnected = str(error)
            return {}
        return {uuid: len(each) for uuid, each in links.items()}

    async def _open_containers(self, stack: AsyncExitStack) -> str:
        try:
            self._launcher, containerd = await open_containers(stack, self._containerd, self._directory / _NODE)
        except NoContainersError as error:
            if self._containerd in {AUTO, OFF}:
                raise SkipStepError(f"programs are plain processes: {error}") from error
            raise StepFailedError(f"programs cannot run in containers: {error}") from error
        return (
            f"programs run in containers of containerd {containerd.version} at {containerd.socket}, with cards by CDI"
        )

    async def _start(self, stack: AsyncExitStack, cluster: LocalCluster) -> str:
        shared = [gpu for gpu in self._gpus if not gpu.can_be_divided and gpu.memory_mib]
        if not shared:
            raise StepFailedError("no card can be shared: each is divided (MIG) or cannot tell its memory")
        self._share_mib = min(_MOST_SHARE_MIB, *(gpu.memory_mib // 4 for gpu in shared if gpu.memory_mib))
        try:
            await stack.enter_async_context(cluster)
            await cluster.wait_until_registered(timeout_s=_WAIT_S)
        except LocalClusterError as error:
            raise StepFailedError(str(error)) from error
        offered = cluster.kubelets[_NODE].allocatable.get("nvidia.com/gpu", 0)
        if offered != len(shared) * _SHARES_OF_A_CARD:
            raise StepFailedError(
                f"{_say_cards(len(shared))} shared, the kubelet is offered {offered} shares, "
                f"not {_SHARES_OF_A_CARD} of each"
            )
        return f"{_say_cards(len(shared))} registered, {offered} shares are offered to the kubelet"

    async def _share(self, cluster: LocalCluster) -> None:
        pods = TrialPods(cluster, _NODE, self._directory / _NODE, self._limiter)
        given: list[ContainerGrant] = []
        if self._limiter:
            install_limiter(self._limiter, self._directory / _NODE)
        with self._report.step("shares") as found:
            wanted = [TrialPod(name, self._share_mib) for name in _PODS]
            given = await pods.submit(wanted, {gpu.uuid for gpu in self._gpus})
            found.append(f"{len(given)} pods have {self._share_mib} MiB and {CORES_PERCENT} % of the cores each")
        if not given:
            return
        with self._report.step("programs") as found:
            found.append(await self._use(given))
        with ExitStack() as stack:
            if self._limiter and isinstance(self._launcher, PlainProcesses):
                stack.enter_context(keep_lock_folder())
            trial = LimiterTrial(pods, self._launcher, self._read_use, self._share_mib, self._seconds)
            await self._limit(trial, given)

    async def _limit(self, trial: LimiterTrial, given: Sequence[ContainerGrant]) -> None:
        """Do the steps that need a limiter."""
        if self._limiter is None:
            for name in _LIMITS:
                with self._report.step(name):
                    raise SkipStepError("without --library nothing limits")
            return
        quarters: list[ContainerGrant] = []
        with self._report.step("limit of memory") as found:
            found.append(await trial.exceed(given[0]))
        with self._report.step("regions") as found:
            found.append(await trial.compare_regions(given))
        with self._report.step("limit of cores") as found:
            quarters = await trial.submit_quarters(given[0].card)
            found.append(await trial.hold_cores(quarters))
        with self._report.step("priorities") as found:
            if not quarters:
                raise SkipStepError("there are no pods to try it with")
            found.append(await trial.feel_priorities(quarters))

    async def _use(self, given: list[ContainerGrant]) -> str:
        """Let a program in each container take half of its share, and hold what is told of them against it."""
        size = self._share_mib // 2 * BYTES_PER_MIB
        before = await self._read_use()
        held: dict[int, str] = {}
        async with AsyncExitStack() as stack:
            for one in given:
                program = await stack.enter_async_context(run_worker(self._launcher, one, size))
                check_worker(program.seen, one.card)
                held[program.pid] = one.card
            during = await self._read_use()
            try:
                told = await smi.read_processes()
            except SkipStepError:
                told = {}
            known = check_use(before, during, held, size, told)
        seen = "by card and by process" if known else "by card, not by process: this is another namespace of processes"
        return f"each sees its card alone, takes {size // BYTES_PER_MIB} MiB and computes; the monitor tells it {seen}"

    async def _read_use(self) -> dict[str, CardUse]:
        async with NvidiaCardUse(self._library) as source:
            reading = await source.read()
        if reading.failures:
            raise StepFailedError("; ".join(reading.failures.values()))
        return {card.uuid: card for card in reading.cards}

    async def _look_again(self) -> str:
        try:
            now = await self._nvml.read_gpus()
        except CardReadError as error:
            raise StepFailedError(str(error)) from error
        sick = [gpu.uuid for gpu in now if not gpu.healthy]
        if sick:
            raise StepFailedError(f"cards do not answer any more: {', '.join(sick)}")
        if now != self._gpus:
            raise StepFailedError("the driver tells other cards than at the start")
        return "every card answers as at the start"


def _say_cards(count: int) -> str:
    return f"{tell_count(count, 'card')} {'is' if count == 1 else 'are'}"
