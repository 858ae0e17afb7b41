"""Follows the leases by which other schedulers of cards could be known, and tells of those that change nothing here."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

import structlog

from gpuloom.kube import (
    LEASES,
    WRITE_DEADLINE_S,
    ApiError,
    Applied,
    Deleted,
    EventRecorder,
    InitialListBegins,
    InitialListComplete,
    InitialObject,
    KubeClient,
    Reflector,
    Unreadable,
)
from gpuloom.kube.lists import ListOptions
from gpuloom.kube.recorder import Subject
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.rivals import LeaseKey, RivalLeases
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.objects import Lease

CHECK_S = 1.0
REPORT_S = 60.0
"""At most so often is a new lease elsewhere told of: who writes leases must not write our events as well."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class RivalLeaseWatch:
    """Keeps what is known of other leases right.

    wake  lets the process see that something has changed
    """

    settings: SchedulerSettings
    rivals: RivalLeases
    clocks: Clocks
    recorder: EventRecorder
    wake: Callable[[], None]
    _reported: set[LeaseKey] = field(default_factory=set)
    _reported_at: float = float("-inf")

    async def run(self, client: KubeClient) -> None:
        """Follow until cancelled."""
        names = self.settings.rival_names
        self.rivals.expect(names)
        async with asyncio.TaskGroup() as tasks:
            for name in sorted(names):
                tasks.create_task(self._watch(client, name))
            tasks.create_task(self.clocks.every(CHECK_S, partial(self._check, client)))

    async def _watch(self, client: KubeClient, name: str) -> None:
        listed: list[Lease] = []
        unreadable: set[LeaseKey] = set()
        reflector = Reflector(client, LEASES, field_selector=f"metadata.name={name}")
        async with aclosing(reflector.events()) as events:
            async for event in events:
                match event:
                    case InitialListBegins():
                        listed, unreadable = [], set()
                    case InitialObject(object=lease):
                        listed.append(lease)
                    case Unreadable(metadata=found):
                        unreadable.add((found.namespace, found.name))
                    case InitialListComplete():
                        self.rivals.replace(name, listed, self.clocks.monotonic(), unreadable)
                    case Applied(object=lease):
                        self.rivals.observe(lease, self.clocks.monotonic())
                    case Deleted(object=lease):
                        self.rivals.remove((lease.namespace, lease.name))
                self.wake()

    async def _check(self, client: KubeClient) -> None:
        for key in self.rivals.doubtful(self.clocks.monotonic()):
            await self._confirm(client, key)
        self._report()

    async def _confirm(self, client: KubeClient, key: LeaseKey) -> None:
        """Read a lease before it counts as abandoned: a silent watch is no proof."""
        namespace, name = key
        selection = ListOptions(namespace, field_selector=f"metadata.name={name}")
        try:
            async with asyncio.timeout(WRITE_DEADLINE_S):
                page = await client.list_page(LEASES, selection, limit=1)
        except (ApiError, TimeoutError) as error:
            _log.warning("a lease that is in the way cannot be read", lease=f"{namespace}/{name}", cause=str(error))
            return
        found = next(iter(page.items), None)
        if not page.unreadable:
            self.rivals.confirm(key, found, self.clocks.monotonic())
            self.wake()

    def _report(self) -> None:
        now = self.clocks.monotonic()
        alive = self.rivals.elsewhere(now)
        self._reported.intersection_update(alive)
        new = [key for key in alive if key not in self._reported]
        if not new or now - self._reported_at < REPORT_S:
            return
        self._reported_at = now
        self._reported.update(new)
        self._report_one(new[0], len(new))

    def _report_one(self, key: LeaseKey, count: int) -> None:
        namespace, name = key
        holder = self.rivals.holder(key)
        more = f", and {count - 1} more like it" if count > 1 else ""
        text = (
            f"{holder} renews the lease {namespace}/{name}{more}: if that is a scheduler of cards, two decide; "
            f"--rival-lease-namespaces lets its lease count"
        )
        _log.warning("another scheduler may decide", lease=f"{namespace}/{name}", holder=holder, leases=count)
        settings = self.settings
        if settings.pod_name and settings.pod_namespace:
            pod = Subject("Pod", settings.pod_namespace, settings.pod_name, "")
            self.recorder.record(pod, "Warning", "AnotherScheduler", text)
