"""The monitor of one node: its parts, the tasks that run them, and the snapshot that a scrape gets.

It does not know about signals or flags; its caller does.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from gpuloom.kube.client import KubeClient
from gpuloom.kube.recorder import EventRecorder
from gpuloom.node.audit.auditor import Auditor
from gpuloom.node.boundpods import bound_pods
from gpuloom.node.clock import Sleep, finish_first
from gpuloom.node.monitor.allotments import list_shares
from gpuloom.node.monitor.cards import CardUseSource, CardWatch
from gpuloom.node.monitor.exporter import Exporter
from gpuloom.node.monitor.families import MigUse, ScrapeData
from gpuloom.node.monitor.leftovers import Leftovers
from gpuloom.node.monitor.legacymetrics import LEGACY_FAMILIES
from gpuloom.node.monitor.metrics import HAMI_FAMILIES, OWN_FAMILIES
from gpuloom.node.monitor.rounds import Round, Rounds
from gpuloom.node.monitor.settings import MonitorSettings
from gpuloom.node.nodepods import NodePods
from gpuloom.serving.rights import Rights
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import MIG_ALLOCATIONS
from gpuloom.wire.mig import decode_mig_allocations
from gpuloom.wire.monitors import AUDIENCE
from gpuloom.wire.objects import Pod

COMPONENT = "gpuloom-monitor"


class NodeMonitor:
    """Serves metrics inside its ``async with`` block; :meth:`run` does the rest until it is cancelled.

    Entering raises ListenError when the address for metrics cannot be used. ``now`` returns Unix time, ``monotonic_s``
    is for durations.
    """

    def __init__(
        self,
        settings: MonitorSettings,
        client: KubeClient,
        source: CardUseSource,
        *,
        sleep: Sleep = asyncio.sleep,
        now: Callable[[], float] = time.time,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._now = now
        resource = bound_pods(settings.resource_name, settings.priority_name)
        self._pods = NodePods(client, resource, settings.node_name, monotonic_s)
        self._events = EventRecorder(client, COMPONENT)
        self._cards = CardWatch(source, settings.mig_lock, period_s=settings.period_s, sleep=sleep)
        self._rounds = Rounds(settings.containers_dir, settings.priority_name)
        self._leftovers = Leftovers(settings.containers_dir, settings.resync_interval_s)
        self._auditor = Auditor(settings, client, self._pods, self._events, lambda: self._cards.reading)
        families = (*HAMI_FAMILIES, *OWN_FAMILIES, *(LEGACY_FAMILIES if settings.legacy_metrics else ()))
        rights = Rights(client) if settings.metrics_auth else None
        schedulers = Rights(client, audience=AUDIENCE) if settings.metrics_auth else None
        self._exporter = Exporter(settings.metrics_bind_address, families, self.take_snapshot, rights, schedulers)
        self._round = Round()
        self._round_duration_s = 0.0
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        """The URL of the metrics, once entered."""
        return self._exporter.url

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._events)
            await stack.enter_async_context(self._exporter)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def run(self) -> None:
        """Monitor until cancelled; raise the error of a part that cannot go on."""
        try:
            await finish_first(
                self._pods.run(), self._cards.run(), self._make_rounds(), self._tidy(), self._auditor.run(self._sleep)
            )
        finally:
            # A blocked container would wait until there is a monitor again.
            await self._rounds.release(self._pods.by_uid)

    async def make_round(self) -> None:
        """Look at all containers once, if their pods are known."""
        began_s = time.perf_counter()
        if self._pods.is_listed:
            self._round = await self._rounds.make(self._pods.by_uid, with_feedback=not self._cards.is_paused)
        self._round_duration_s = time.perf_counter() - began_s

    def take_snapshot(self) -> ScrapeData:
        """Put together what a scrape gets now."""
        return ScrapeData(
            node_name=self._settings.node_name,
            now_s=self._now(),
            round=self._round,
            cards=self._cards.reading,
            migs=tuple(use for pod in self._pods.all for use in _list_migs(pod)),
            round_duration_s=self._round_duration_s,
            findings=self._auditor.findings,
            sources={"pods": self._pods.is_listed, "driver": self._cards.reading is not None, **self._auditor.up},
            processes=self._auditor.processes,
            counters={
                "directories_removed": self._leftovers.removed,
                "failures": self._rounds.failures + self._leftovers.failures,
                "events_dropped": self._events.dropped + self._events.failed,
            },
        )

    async def _make_rounds(self) -> None:
        while True:
            await self.make_round()
            await self._sleep(self._settings.period_s)

    async def _tidy(self) -> None:
        """Delete leftovers again and again, while the pods are known."""
        while True:
            if self._pods.are_current:
                await self._leftovers.tidy(self._pods.uids, self._now())
            await self._sleep(self._settings.period_s)


def _list_migs(pod: Pod) -> Iterator[MigUse]:
    """Return the MIG instances of a pod that has not ended; none if its annotation cannot be read."""
    shares = list(list_shares(pod))
    try:
        allocations = decode_mig_allocations(pod.annotations.get(MIG_ALLOCATIONS, "") if shares else "")
    except WireError:
        return
    for allocation in allocations:
        if allocation.container_index < len(shares):
            container, own = shares[allocation.container_index]
            if own[allocation.device_index : allocation.device_index + 1]:
                yield MigUse(pod.namespace, pod.name, container.name, allocation)
