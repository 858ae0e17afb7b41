"""The steps of a self-test, one after the other; each needs those before it."""

from contextlib import AsyncExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gpuloom import __version__
from gpuloom.kube.errors import ApiError
from gpuloom.kube.resources import PODS
from gpuloom.local.cluster import LocalCluster, LocalClusterError
from gpuloom.local.description import ClusterDescription, NodeDescription
from gpuloom.local.selftest import smi
from gpuloom.local.selftest.comparing import check_cards, check_given, check_use, check_worker
from gpuloom.local.selftest.processes import ContainerGrant, run_worker
from gpuloom.local.selftest.report import SelfTestReport, SkipStepError, StepFailedError, TestedCard
from gpuloom.local.waiting import wait_until
from gpuloom.node.errors import CardReadError
from gpuloom.node.monitor.cards import CardUse
from gpuloom.node.monitor.nvidia import NvidiaCardUse
from gpuloom.node.nvidia import DriverNvml
from gpuloom.node.nvml import Gpu

BYTES_PER_MIB = 2**20
CORES_PERCENT = 25
_NODE, _NAMESPACE, _CONTAINER = "selftest", "default", "main"
_PODS = ("one", "two")
_MOST_SHARE_MIB = 1024
_SHARES_OF_A_CARD = 10
_WAIT_S = 60.0


class SelfTest:
    """One self-test of this machine over `nvml`; ``library`` is the module ``pynvml``.

    `directory` gets all files, and its path must be short. `limiter` is HAMi-core's library, None without one.
    """

    def __init__(self, nvml: DriverNvml, library: Any, directory: Path, *, limiter: Path | None = None) -> None:
        self._nvml = nvml
        self._library = library
        self._directory = directory
        self._limiter = limiter
        self._gpus: tuple[Gpu, ...] = ()
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
            check_cards(self._gpus, self._report.cards, await smi.read_cards())
            found.append(f"{len(self._gpus)} cards are as nvidia-smi tells them")
        async with AsyncExitStack() as stack:
            description = ClusterDescription((NodeDescription(_NODE, self._nvml),))
            cluster = LocalCluster(description, self._directory, backoff_initial_s=0.2)
            with self._report.step("device plugin") as found:
                found.append(await self._start(stack, cluster))
            if not self._report.has_failed:
                await self._share(cluster)
        with self._report.step("health") as found:
            found.append(await self._look_again())
        return self._report

    async def _describe(self) -> None:
        self._gpus = await self._nvml.read_gpus()
        self._report.driver = await self._nvml.read_version()
        links = (await self._nvml.read_interconnect([gpu.uuid for gpu in self._gpus])).links
        self._report.cards = [
            TestedCard(gpu.uuid, gpu.name, gpu.memory_mib, gpu.pci_bus_id, gpu.numa, len(links[gpu.uuid]))
            for gpu in self._gpus
        ]

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
                f"the kubelet is offered {offered} shares of {len(shared)} cards, not {_SHARES_OF_A_CARD} of each"
            )
        return f"{len(shared)} cards are registered, {offered} shares are offered to the kubelet"

    async def _share(self, cluster: LocalCluster) -> None:
        given: list[ContainerGrant] = []
        with self._report.step("shares") as found:
            given = await self._ask(cluster)
            found.append(f"{len(given)} pods have {self._share_mib} MiB and {CORES_PERCENT} % of the cores each")
        if not given:
            return
        with self._report.step("programs") as found:
            found.append(await self._use(given))
        with self._report.step("limit of memory") as found:
            found.append(await self._exceed(given[0]))

    async def _ask(self, cluster: LocalCluster) -> list[ContainerGrant]:
        """Submit the pods, and return what their containers were given."""
        uuids = {gpu.uuid for gpu in self._gpus}
        try:
            for name in _PODS:
                await cluster.submit(_make_pod(name, self._share_mib))
            await wait_until(
                cluster.client,
                PODS,
                lambda pods: sum(pod.status.phase == "Running" for pod in pods.values()) == len(_PODS),
                timeout_s=_WAIT_S,
            )
        except ApiError as error:
            raise StepFailedError(f"the pods cannot be created: {error}") from error
        except TimeoutError as error:
            raise StepFailedError(f"the pods did not start within {_WAIT_S:g} s") from error
        kubelet = cluster.kubelets[_NODE]
        containers = [(_NAMESPACE, name, _CONTAINER) for name in _PODS]
        for key in containers:
            check_given(key[1], kubelet.environments[key], kubelet.mounts[key], uuids, self._share_mib)
        return [ContainerGrant(kubelet.environments[key], self._limiter) for key in containers]

    async def _use(self, given: list[ContainerGrant]) -> str:
        """Let a program in each container take half of its share, and hold what is told of them against it."""
        size = self._share_mib // 2 * BYTES_PER_MIB
        before = await self._read_use()
        held: dict[int, str] = {}
        async with AsyncExitStack() as stack:
            for number, one in enumerate(given):
                scratch = self._directory / f"program-{number}"
                pid, worker = await stack.enter_async_context(run_worker(one, size, scratch))
                check_worker(worker, one.card)
                held[pid] = one.card
            during = await self._read_use()
            try:
                told = await smi.read_processes()
            except SkipStepError:
                told = {}
            known = check_use(before, during, held, size, told)
        seen = "by card and by process" if known else "by card, not by process: this is another namespace of processes"
        return f"each sees its card alone, takes {size // BYTES_PER_MIB} MiB and computes; the monitor tells it {seen}"

    async def _exceed(self, given: ContainerGrant) -> str:
        if self._limiter is None:
            raise SkipStepError("without --library nothing limits")
        share = self._share_mib * BYTES_PER_MIB
        async with run_worker(given, share * 2, self._directory / "program-limited") as (_, worker):
            if worker.error:
                raise StepFailedError(worker.error)
            if worker.is_taken:
                raise StepFailedError(f"a program took {2 * self._share_mib} MiB of {self._share_mib} MiB")
            if worker.total_bytes != share:
                raise StepFailedError(f"a program is told {worker.total_bytes} bytes of memory, its limit is {share}")
        return f"a program sees {self._share_mib} MiB and cannot take {2 * self._share_mib} MiB"

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


def _make_pod(name: str, share_mib: int) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(share_mib), "nvidia.com/gpucores": str(CORES_PERCENT)}
    return {
        "metadata": {"name": name, "namespace": _NAMESPACE},
        "spec": {"containers": [{"name": _CONTAINER, "image": "none", "resources": {"limits": limits}}]},
    }
