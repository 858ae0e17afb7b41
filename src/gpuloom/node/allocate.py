"""Allocate, from the kubelet's call to the finished pod: find the pod, grant, write back, release the node lock.

One call at a time. :mod:`gpuloom.node.plan` decides what is granted; this module only talks to the API server and
prepares directories. Source: device plugin 10, binding 3.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError
from gpuloom.model.card import Card
from gpuloom.model.mig import MigRuntime
from gpuloom.node.asking_pod import has_nothing_yet
from gpuloom.node.cdi import write_specs
from gpuloom.node.clock import Sleep
from gpuloom.node.errors import AllocationError, NodeError, NoRoomError
from gpuloom.node.finding import FoundPod, PodFinder
from gpuloom.node.hostfiles import look_up, prepare_directories
from gpuloom.node.knownpods import Book
from gpuloom.node.listsbeside import is_served_beside
from gpuloom.node.mig.claims import InstanceKey, enter_runtimes
from gpuloom.node.mig.keeper import MigKeeper
from gpuloom.node.nodewatch import NodeWatch
from gpuloom.node.nvml import Gpu
from gpuloom.node.plan import AllocatePlan, Grant, Surroundings, plan_allocation, settle_shares, show_instances
from gpuloom.node.preference import PreferenceRequest, prefer
from gpuloom.node.replicas import SLICE_MARK, is_instance
from gpuloom.node.response import Injection
from gpuloom.node.room import check_room
from gpuloom.node.settings import NodeSettings
from gpuloom.node.writes import patch_pod_annotations, release_lock, write_grant
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import decode_shares

_NOTHING_ASKED = "the kubelet asked for no device at all: an empty request cannot be served"
_log = structlog.get_logger(__name__)


def _make_id() -> str:
    return str(uuid.uuid4())


def _do_nothing() -> None:
    pass


def _no_gpus() -> Sequence[Gpu]:
    return ()


def _no_cards() -> Sequence[Card]:
    return ()


def _report_nothing(pod: Pod, message: str) -> None:
    del pod, message


def _no_ids(resource: str) -> Sequence[str]:
    del resource
    return ()


@dataclass(frozen=True, slots=True)
class Served:
    """One Allocate call that was answered: for which pod, and what it gets."""

    pod: FullPod
    grants: tuple[Grant, ...]


class Allocator:
    """Serves the containers of one node, one Allocate call after the other.

    ``read_cards`` returns the cards as registered, of which no more is given away than there is; ``report`` is told of
    a pod that was refused for that. ``mig`` makes instances of divided cards. ``read_book`` returns what the kubelet
    knows, None where it is not shown; without it, the kubelet's socket is asked. ``watch`` shows the node's pods;
    without it, the API server is asked for every call.
    """

    def __init__(
        self,
        settings: NodeSettings,
        client: KubeClient,
        *,
        read_gpus: Callable[[], Sequence[Gpu]] = _no_gpus,
        read_cards: Callable[[], Sequence[Card]] = _no_cards,
        read_ids: Callable[[str], Sequence[str]] = _no_ids,
        read_book: Callable[[], Awaitable[Book | None]] | None = None,
        mig: MigKeeper | None = None,
        watch: NodeWatch | None = None,
        report: Callable[[Pod, str], None] = _report_nothing,
        make_id: Callable[[], str] = _make_id,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._client = client
        self._read_gpus = read_gpus
        self._read_cards = read_cards
        self._read_ids = read_ids
        self._report = report
        self._watch = watch
        self._finder = PodFinder(settings, client, read_book, sleep=sleep, watch=watch)
        self._mig = mig
        self._make_id = make_id
        self._sleep = sleep
        self._turn = asyncio.Lock()

    async def allocate(
        self, requests: Sequence[Sequence[str]], *, on_found: Callable[[], None] = _do_nothing
    ) -> Served:
        """Grant one container for each of `requests`, which are the device ids that the kubelet chose.

        ``on_found`` is called when the pod is known, before anything is changed: until then a call may be cancelled.
        Raises AllocationError. If the pod is known by then, it is marked as failed and its node lock is released; while
        the call may be another pod's, nothing is changed (trust T-03). A pod that the watch shows is granted first and
        confirmed by the API server then: if the call was another's after all, it is marked as failed, too.
        """
        if not requests or not all(requests):
            raise AllocationError(_NOTHING_ASKED)
        async with self._turn:
            found = await self._find(requests)
            pod = found.pod
            on_found()
            try:
                self._check_room(found, requests)
                plan = await self._serve(found, requests)
            except (NodeError, ApiError, WireError, OSError) as error:
                await self._give_up(found)
                if isinstance(error, AllocationError):
                    raise
                raise AllocationError(str(error)) from error
            await self._finish(found, plan)
            return Served(pod, plan.grants)

    def meet_kubelet(self) -> None:
        """Serve another kubelet from now on: it may ask again for pods of which the last one lost the answer."""
        self._finder.forget_served()

    def show_instances(self, resource: str, requests: Sequence[Sequence[str]]) -> tuple[Injection, ...]:
        """Show containers the instances that the kubelet chose from a resource of which the scheduler knows nothing.

        Does not look for a pod and changes none. Raises AllocationError.
        """
        if not requests or not all(requests):
            raise AllocationError(_NOTHING_ASKED)
        around = self._look_around(resource, None)
        return tuple(show_instances(ids, resource, around) for ids in requests)

    async def prefer(self, requests: Sequence[PreferenceRequest]) -> tuple[tuple[str, ...], ...]:
        """Return which of the kubelet's free ids are on the cards that the scheduler chose; empty when that is unknown.

        Never fails: without a preference the kubelet chooses for itself.
        """
        try:
            counts = [request.size for request in requests]
            found = await self._finder.find_shown(counts) or await self._finder.find(counts)
            entries = decode_shares(found.pod.annotations.get(keys.DEVICES_TO_ALLOCATE, ""))
        except (AllocationError, WireError) as error:
            _log.info("no preference", node=self._settings.node_name, reason=str(error))
            entries = ()
        return prefer(requests, entries)

    async def _find(self, requests: Sequence[Sequence[str]]) -> FoundPod:
        counts = [len(ids) for ids in requests]
        instances = [each for ids in requests for each in ids if is_instance(each) and SLICE_MARK not in each]
        found = await self._finder.find_shown(counts, instances)
        if found is not None:
            try:
                self._add_up(found, requests)
            except (NoRoomError, WireError) as error:
                # What is shown may be of the past: nobody is refused for it.
                _log.info("the watch shows no room", pod=found.pod.full_name, reason=str(error))
            else:
                return found
        return await self._finder.wait(counts, instances)

    async def _finish(self, found: FoundPod, plan: AllocatePlan) -> None:
        pod, containers = found.pod, [grant.container for grant in plan.grants]
        if found.is_repeated:
            _log.warning("allocated again what the kubelet did not hear of", pod=pod.full_name, containers=containers)
            return
        if plan.is_complete:
            self._finder.note_served(pod)
        if plan.is_complete and is_served_beside(pod, self._settings):
            await self._release(found)
        _log.info("allocated", pod=pod.full_name, containers=containers, complete=plan.is_complete)

    async def _serve(self, found: FoundPod, requests: Sequence[Sequence[str]]) -> AllocatePlan:
        pod = found.pod
        if self._mig is None:
            plan = self._prepare(pod, requests, None)
            await self._grant(found, requests, plan, {})
            return plan
        instances = await self._mig.create(pod, requests)
        try:
            await write_specs(self._settings)
            plan = self._prepare(pod, requests, instances)
            await self._grant(found, requests, plan, instances)
        except BaseException:
            await self._mig.roll_back(pod, requests, instances)
            raise
        return plan

    def _prepare(
        self, pod: FullPod, requests: Sequence[Sequence[str]], instances: Mapping[InstanceKey, MigRuntime] | None
    ) -> AllocatePlan:
        plan = plan_allocation(pod, requests, self._look_around(self._settings.resource_name, instances))
        if directories := [grant.cache_dir for grant in plan.grants if grant.cache_dir]:
            prepare_directories(directories, self._settings)
        return plan

    def _look_around(self, resource: str, instances: Mapping[InstanceKey, MigRuntime] | None) -> Surroundings:
        gpus = {gpu.uuid: gpu for gpu in self._read_gpus()}
        host = look_up(self._settings)
        sick = {card.id for card in self._read_cards() if not card.healthy}
        return Surroundings(self._settings, gpus, host, self._make_id, instances, self._read_ids(resource), sick)

    def _add_up(self, found: FoundPod, requests: Sequence[Sequence[str]]) -> None:
        given = settle_shares(found.pod, requests, self._settings)
        check_room(
            found.pod, found.call.pods, self._read_cards(), lambda other: has_nothing_yet(other, found.call), given
        )

    def _check_room(self, found: FoundPod, requests: Sequence[Sequence[str]]) -> None:
        try:
            self._add_up(found, requests)
        except NoRoomError as error:
            _log.error("a card would be given away twice", pod=found.pod.full_name, error=str(error))
            self._report(found.pod, error.told)
            raise

    async def _grant(
        self,
        found: FoundPod,
        requests: Sequence[Sequence[str]],
        plan: AllocatePlan,
        instances: Mapping[InstanceKey, MigRuntime],
    ) -> None:
        if found.is_repeated:
            # All of it stands on the pod since the first time.
            return
        written = await self._write_back(found.pod, plan, instances)
        if found.is_shown:
            self._check_room(await self._finder.confirm(found, written), requests)

    async def _write_back(
        self, pod: FullPod, plan: AllocatePlan, instances: Mapping[InstanceKey, MigRuntime]
    ) -> FullPod:
        def change(present: Pod) -> dict[str, str]:
            annotations = {keys.DEVICES_TO_ALLOCATE: plan.to_allocate}
            if instances and keys.MIG_ALLOCATIONS in present.annotations:
                annotations[keys.MIG_ALLOCATIONS] = enter_runtimes(present, instances)
            # Whoever is last of several vendors' plugins says that the pod is served.
            if plan.is_complete and is_served_beside(present, self._settings):
                annotations[keys.BIND_PHASE] = keys.PHASE_SUCCESS
            return annotations

        return await write_grant(self._client, pod, change, sleep=self._sleep)

    async def _give_up(self, found: FoundPod) -> None:
        pod = found.pod
        try:
            await patch_pod_annotations(self._client, pod, {keys.BIND_PHASE: keys.PHASE_FAILED}, sleep=self._sleep)
        except ApiError as error:
            _log.warning("pod cannot be marked as failed", pod=pod.full_name, error=str(error))
        await self._release(found)

    async def _release(self, found: FoundPod) -> None:
        if found.is_shown and self._watch is not None:
            self._watch.locks.note(found.pod)
            return
        if found.lock is None:
            # A lock is set before its pod is bound: one that was not there then does not come for this pod.
            return
        try:
            await release_lock(self._client, self._settings.node_name, found.lock, sleep=self._sleep)
        except ApiError as error:
            # The scheduler takes the lock over from a pod that is done, so the container can start.
            _log.error(
                "node lock cannot be released", node=self._settings.node_name, pod=found.pod.full_name, error=str(error)
            )
