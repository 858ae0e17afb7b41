"""In whatever order pods come and their kubelet takes them in: nobody gets another's grant (trust T-03)."""

import asyncio
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gpuloom.kube.client import KubeClient
from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import LocalApiServer
from gpuloom.node.allocate import Allocator
from gpuloom.node.errors import AllocationError
from gpuloom.node.knownpods import Book, KnownPod
from gpuloom.node.nvml import Gpu
from gpuloom.node.settings import NodeSettings
from gpuloom.wire import keys

from .conftest import connect

EXAMPLES = 250
RESOURCE = "nvidia.com/gpu"
CARDS = [Gpu(uuid=f"GPU-{n}", index=n, name="NVIDIA A40", memory_mib=46068, pci_bus_id="") for n in range(3)]


@dataclass(frozen=True)
class Place:
    """The scheduler binds a pod whose containers ask for so many devices each, if nobody holds the node's lock."""

    counts: tuple[int, ...]


@dataclass(frozen=True)
class Come:
    """A pod comes past the scheduler; it may say that it was served, or be one that the API server does not show."""

    counts: tuple[int, ...]
    lies: bool = False
    is_static: bool = False


@dataclass(frozen=True)
class TakeIn:
    """The kubelet takes in one of the pods that it has not looked at, and somebody may delete it by force meanwhile."""

    choice: int
    vanishes: bool = False


@dataclass(frozen=True)
class Tell:
    """The kubelet's statuses reach the API server."""


Step = Place | Come | TakeIn | Tell
_counts = st.lists(st.integers(0, 3), min_size=1, max_size=3).filter(any).map(tuple)


def steps(*, hides: bool) -> st.SearchStrategy[Sequence[Step]]:
    """Steps; where `hides`, also those of pods that the API server does not show."""
    hidden = st.booleans() if hides else st.just(False)
    comings = st.builds(Come, _counts, lies=st.booleans() if hides else st.just(False), is_static=hidden)
    takings = st.builds(TakeIn, st.integers(0, 9), vanishes=hidden)
    return st.lists(st.one_of(st.builds(Place, _counts), comings, takings, takings, st.just(Tell())), max_size=14)


@dataclass
class Resident:
    """A pod of the node; ``held`` are the numbers of devices that its containers got.

    One that ``is_hidden`` is not, or not any more, shown by the API server.
    """

    name: str
    counts: tuple[int, ...]
    is_ours: bool
    is_hidden: bool = False
    held: dict[str, int] = field(default_factory=dict)


class Kubelet:
    """Takes pods in one after another, as real ones do; ``keeps_refused`` is how those before 1.34 list them."""

    def __init__(self, client: KubeClient, base: NodeSettings, *, is_shown: bool, keeps_refused: bool) -> None:
        self.waiting: list[Resident] = []
        self.wrongs: list[str] = []
        self.refused: list[Resident] = []
        self._client = client
        self._node = base.node_name
        self._is_shown = is_shown
        self._keeps_refused = keeps_refused
        self._book: list[Resident] = []
        self._untold: list[tuple[Resident, str]] = []
        self._names = (f"{self._node}-{number}" for number in itertools.count())
        self._allocator = Allocator(
            base, client, read_gpus=lambda: CARDS, read_book=self._tell_book, sleep=self._let_time_pass
        )

    async def take(self, step: Step) -> None:
        match step:
            case Place(counts):
                await self._place(Resident(next(self._names), counts, is_ours=True))
            case Come(counts, lies, is_static):
                await self._come(Resident(next(self._names), counts, is_ours=False, is_hidden=is_static), lies=lies)
            case TakeIn(choice, vanishes) if self.waiting:
                await self._take_in(self.waiting.pop(choice % len(self.waiting)), vanishes=vanishes)
            case Tell():
                await self.tell()

    async def tell(self) -> None:
        """Write the statuses that are not written yet."""
        for pod, phase in self._untold:
            if not pod.is_hidden:
                status = {"phase": phase, "startTime": "2026-01-01T00:00:00Z"}
                await self._client.patch(PODS, pod.name, {"status": status}, namespace="default", subresource="status")
        self._untold.clear()

    async def _let_time_pass(self, seconds: float) -> None:
        del seconds
        await self.tell()

    async def _tell_book(self) -> Book | None:
        if not self._is_shown:
            return None
        return [
            KnownPod(
                "default",
                pod.name,
                {f"c{n}": [f"id-{k}" for k in range(pod.held.get(f"c{n}", 0))] for n in range(len(pod.counts))},
            )
            for pod in self._book
        ]

    async def _place(self, pod: Resident) -> None:
        node = await self._client.get(NODES, self._node)
        if node.annotations.get(keys.NODE_LOCK):
            return
        shares = "".join("".join(f"GPU-{k},NVIDIA,9,1:" for k in range(count)) + ";" for count in pod.counts)
        lock = f"2026-01-01T00:00:00Z,default,{pod.name}"
        await self._client.patch(NODES, self._node, {"metadata": {"annotations": {keys.NODE_LOCK: lock}}})
        annotations = {
            keys.VGPU_NODE: self._node,
            keys.BIND_PHASE: keys.PHASE_ALLOCATING,
            keys.DEVICES_TO_ALLOCATE: shares,
        }
        await self._create(pod, annotations, "hami-scheduler")

    async def _come(self, pod: Resident, *, lies: bool) -> None:
        served = {keys.VGPU_NODE: self._node, keys.BIND_PHASE: keys.PHASE_SUCCESS}
        if pod.is_hidden:
            self.waiting.append(pod)
        else:
            await self._create(pod, served if lies else {}, "default-scheduler")

    async def _create(self, pod: Resident, annotations: dict[str, str], scheduler: str) -> None:
        containers = [
            {"name": f"c{n}", "image": "i", "resources": {"limits": {RESOURCE: str(count)}}}
            for n, count in enumerate(pod.counts)
        ]
        spec = {"nodeName": self._node, "schedulerName": scheduler, "containers": containers}
        body = {"metadata": {"name": pod.name, "annotations": annotations}, "spec": spec}
        await self._client.create(PODS, body, namespace="default")
        self.waiting.append(pod)

    async def _take_in(self, pod: Resident, *, vanishes: bool) -> None:
        self._book.append(pod)
        if vanishes and not pod.is_hidden:
            await self._client.delete(PODS, pod.name, namespace="default", grace_period_s=0)
            pod.is_hidden = True
        try:
            for n, count in enumerate(pod.counts):
                if count:
                    await self._ask(pod, count)
                    pod.held[f"c{n}"] = count
        except AllocationError:
            self.refused.append(pod)
            self._refuse(pod)
        else:
            self._untold.append((pod, "Running"))

    async def _ask(self, pod: Resident, count: int) -> None:
        served = await self._allocator.allocate([[f"GPU-any-{k}" for k in range(count)]])
        if served.pod.name != pod.name:
            self.wrongs.append(f"{pod.name} got the grant of {served.pod.name}")
        if len(served.grants[0].shares) != count:
            self.wrongs.append(f"{pod.name} got {len(served.grants[0].shares)} shares for {count} devices")

    def _refuse(self, pod: Resident) -> None:
        pod.held.clear()
        self._untold.append((pod, "Failed"))
        if not self._keeps_refused:
            self._book.remove(pod)


class Stage:
    """An API server on which one story after another is played, each on a node of its own."""

    def __init__(self, runner: asyncio.Runner, client: KubeClient, base: NodeSettings) -> None:
        self._runner = runner
        self._client = client
        self._base = base
        self._numbers = itertools.count()

    def play(self, story: Sequence[Step], *, is_shown: bool, keeps_refused: bool) -> Kubelet:
        with capture_logs():
            return self._runner.run(self._play(story, is_shown=is_shown, keeps_refused=keeps_refused))

    async def _play(self, story: Sequence[Step], *, is_shown: bool, keeps_refused: bool) -> Kubelet:
        base = replace(self._base, node_name=f"n{next(self._numbers)}")
        await self._client.create(NODES, {"metadata": {"name": base.node_name}})
        kubelet = Kubelet(self._client, base, is_shown=is_shown, keeps_refused=keeps_refused)
        for step in (*story, *(TakeIn(0) for _ in story)):
            await kubelet.take(step)
        return kubelet


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="gl-") as folder, asyncio.Runner() as runner:
        stack = AsyncExitStack()
        server = runner.run(stack.enter_async_context(LocalApiServer()))
        client = runner.run(stack.enter_async_context(connect(server, Path(folder))))
        yield Stage(runner, client, NodeSettings("n", plugins_dir=Path(folder), host_root=Path(folder)))
        runner.run(stack.aclose())


@pytest.mark.timeout(600)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps(hides=True))
def test_every_pod_of_ours_gets_its_own_grant_and_no_other_gets_any(stage: Stage, story: Sequence[Step]) -> None:
    """decision 021: the kubelet's book tells, whatever the API server shows and foreign pods say."""
    kubelet = stage.play(story, is_shown=True, keeps_refused=False)
    ours = [pod.name for pod in kubelet.refused if pod.is_ours and not pod.is_hidden]
    assert (kubelet.wrongs, ours) == ([], [])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kubelet", [{"is_shown": True}, {"is_shown": False}], ids=["keeps refused pods", "no book"])
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=steps(hides=False))
def test_nobody_gets_anothers_grant_where_the_kubelet_tells_less(
    stage: Stage, kubelet: dict[str, bool], story: Sequence[Step]
) -> None:
    """decision 021: of the pods that the API server shows."""
    assert stage.play(story, **kubelet, keeps_refused=True).wrongs == []
