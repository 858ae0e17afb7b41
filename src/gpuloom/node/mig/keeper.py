"""Make instances for pods, and destroy them when their pods are gone (device plugin 12.4).

:mod:`gpuloom.node.mig.partbook` knows whose each instance is; here is which cards are divided, and which pods live.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import structlog

from gpuloom.kube.annotations import insist
from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError
from gpuloom.model.mig import MigAllocation, MigRuntime
from gpuloom.node.boundpods import bound_pods
from gpuloom.node.clock import Sleep
from gpuloom.node.errors import AllocationError, CardReadError
from gpuloom.node.mig.claims import InstanceKey, find_claims, key_of, read_allocations, read_cards, read_promises
from gpuloom.node.mig.geometries import Layout, lay_out_card
from gpuloom.node.mig.lockfile import hold
from gpuloom.node.mig.offers import MigOffer, build_offer
from gpuloom.node.mig.partbook import PartBook
from gpuloom.node.nvml import Gpu, Nvml, PartProfile
from gpuloom.node.settings import NodeSettings
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.objects import Pod

PERIOD_S = 5.0
_log = structlog.get_logger(__name__)

_Unmade = Collection[tuple[str, InstanceKey]]
"""Promises of which there can be no instance yet: uid of the pod, and which of its shares."""


class MigKeeper:
    """What one node's cards are divided into, and for whom."""

    def __init__(self, settings: NodeSettings, client: KubeClient, nvml: Nvml, *, sleep: Sleep = asyncio.sleep) -> None:
        self._settings = settings
        self._client = client
        self._nvml = nvml
        self._bound_pods = bound_pods(settings.resource_name)
        self._sleep = sleep
        self._book = PartBook(nvml.mig, settings.mig_lock)
        self._layouts: dict[str, tuple[Layout, ...]] | None = None if settings.mig_allowlist else {}
        self._offers: dict[str, MigOffer] = {}
        self._withheld: dict[str, MigOffer] = {}
        self._silent: set[str] = set()
        self._complaints: dict[str, str] = {}
        self._turn = asyncio.Lock()

    async def prepare(self, gpus: Iterable[Gpu]) -> Mapping[str, MigOffer]:
        """Return what the cards can be divided into, empty idle ones, and adopt what running pods hold.

        On cards in use, idle instances that belong to nobody are destroyed, now or by :meth:`reconcile`. A card in use
        is offered if MIG is on; :meth:`divide_idle` divides the others later, and takes up those that do not answer
        now. If the users of the cards are not known, no card is touched.
        """
        async with self._turn:
            self._offers, self._withheld, self._silent = {}, {}, set()
            self._complaints.clear()
            return self._offer(await self._take_up(tuple(gpus)))

    async def divide_idle(self) -> Mapping[str, MigOffer]:
        """Divide cards that could not be divided before and are idle now; return all offers if there is a new one.

        Raises ApiError and WireError; then no card was touched.
        """
        if not (self._withheld or self._silent):
            return {}
        async with self._turn:
            named = _find_cards_of(await self._list_pods())
            ready = await self._look_again()
            idle = [uuid for uuid in self._withheld if uuid not in {*named, *ready} and await self._is_idle(uuid)]
            ready += [uuid for uuid in idle if await self._empty(uuid)]
            return self._offer(ready) if ready else {}

    async def create(self, pod: Pod, requests: Sequence[Sequence[str]]) -> Mapping[InstanceKey, MigRuntime]:
        """Make the instances that the pod's containers were promised, all or none.

        Raises AllocationError.
        """
        claims = find_claims(pod, requests, self._layouts)
        runtimes: dict[InstanceKey, MigRuntime] = {}
        async with self._turn:
            await self._make_room(pod, claims)
            try:
                with hold(self._settings.mig_lock):
                    for claim in claims:
                        runtimes[key_of(claim)] = await self._book.make(pod, claim)
            except CardReadError as error:
                await self._destroy_made(pod, claims, runtimes)
                raise AllocationError(f"pod {pod.full_name} cannot have its MIG instances: {error}") from error
        return runtimes

    async def roll_back(
        self, pod: Pod, requests: Sequence[Sequence[str]], runtimes: Mapping[InstanceKey, MigRuntime]
    ) -> None:
        """Destroy what :meth:`create` made; what cannot be destroyed now is destroyed when the pod is gone."""
        async with self._turn:
            await self._destroy_made(pod, find_claims(pod, requests, self._layouts), runtimes)

    async def keep(self, offer: Callable[[Mapping[str, MigOffer]], None]) -> None:
        """Every 5 s, destroy the instances of pods that are over, and divide cards that are idle now.

        `offer` gets all offers when there are new ones. Runs until cancelled.
        """
        while True:
            await self._sleep(PERIOD_S)
            try:
                await self.reconcile()
                if offers := await self.divide_idle():
                    offer(offers)
            except (ApiError, WireError) as error:
                _log.warning("MIG instances stay as they are", error=str(error), retry_s=PERIOD_S)

    async def reconcile(self) -> None:
        """Destroy the instances of pods that are over, and idle ones of nobody on cards in question.

        Raises ApiError and WireError; then nothing was destroyed.
        """
        async with self._turn:
            await self._tidy()

    async def _make_room(self, pod: Pod, claims: Iterable[MigAllocation]) -> None:
        """Destroy the instances of pods that are over: the scheduler gives their places away at once."""
        unmade = {(pod.metadata.uid, key_of(claim)) for claim in claims}
        try:
            # A pod that finds no room has failed for good.
            await insist(lambda: self._tidy(unmade), self._sleep)
        except (ApiError, WireError) as error:
            _log.warning("MIG instances of other pods stay as they are", pod=pod.full_name, error=str(error))

    async def _tidy(self, unmade: _Unmade = ()) -> None:
        if self._book.is_settled:
            return
        pods = [pod for pod in await self._list_pods() if not _is_through(pod)]
        allocations = [allocation for pod in pods for allocation in read_allocations(pod)]
        named = {allocation.runtime.mig_uuid for allocation in allocations if allocation.runtime}
        await self._book.take_back({pod.metadata.uid for pod in pods}, named)
        await self._settle(pods, unmade)

    async def _settle(self, pods: Iterable[FullPod], unmade: _Unmade = ()) -> None:
        """Let the book settle what is in question; `pods` are all that are not through."""
        try:
            held = [(pod, promise) for pod in pods for promise in read_promises(pod, self._layouts)]
        except WireError as error:
            self._complain("", "it is not known whose MIG instances are, none of nobody is destroyed", str(error))
            return
        await self._book.settle([one for one in held if (one[0].metadata.uid, key_of(one[1])) not in unmade])

    async def _take_up(self, gpus: Sequence[Gpu]) -> list[str]:
        """Withhold what cards can be divided into, and return those that can be offered at once."""
        found = await self._read_offers(gpus)
        self._withheld |= found
        pods, used = await self._find_used(found)
        self._book.question(used)
        if pods is not None:
            await self._settle([pod for pod in pods if not _is_through(pod)])
        divided = {gpu.uuid for gpu in gpus if gpu.can_be_divided}
        for uuid in used - divided:
            _log.warning("card is not offered before it is idle, MIG is off on it", uuid=uuid)
        return [uuid for uuid in found if (uuid in divided if uuid in used else await self._empty(uuid))]

    async def _look_again(self) -> list[str]:
        """Take up the cards that did not tell before what they can be divided into."""
        try:
            gpus = await self._nvml.read_gpus() if self._silent else ()
        except CardReadError:
            return []
        again = [gpu for gpu in gpus if gpu.uuid in self._silent]
        return await self._take_up(again) if again else []

    async def _read_offers(self, gpus: Iterable[Gpu]) -> dict[str, MigOffer]:
        offers = {}
        for gpu in gpus:
            try:
                known = await self._nvml.mig.read_profiles(gpu.uuid)
            except CardReadError as error:
                self._silent.add(gpu.uuid)
                self._complain(gpu.uuid, "card does not tell its MIG profiles, it is not offered", str(error))
                continue
            self._silent.discard(gpu.uuid)
            offer = self._build_offer(gpu, known)
            if offer is None:
                self._report_nothing_allowed(gpu, known)
            else:
                offers[gpu.uuid] = offer
        return offers

    def _build_offer(self, gpu: Gpu, known: Sequence[PartProfile]) -> MigOffer | None:
        if self._layouts is None:
            return build_offer(gpu, known, self._settings.mig_allowlist)
        self._layouts[gpu.uuid] = lay_out_card(gpu, known, self._settings.mig_geometries)
        return MigOffer((), self._settings.device_split_count) if any(self._layouts[gpu.uuid]) else None

    def _report_nothing_allowed(self, gpu: Gpu, known: Iterable[PartProfile]) -> None:
        """Say what the administrator needs: the model, what it can be divided into, and the setting to name it in."""
        _log.error(
            "no MIG profile is allowed for this card, it is not offered: name its model in the setting",
            uuid=gpu.uuid,
            model=gpu.name,
            known=[profile.name for profile in known],
            setting="migProfileAllowlist" if self._layouts is None else "knownMigGeometries",
        )

    async def _list_pods(self) -> list[FullPod]:
        place = f"spec.nodeName={self._settings.node_name}"
        pods, _ = await self._client.list_all(self._bound_pods, field_selector=place, must_read_all=True)
        return pods

    def _offer(self, uuids: Iterable[str]) -> Mapping[str, MigOffer]:
        for uuid in uuids:
            self._offers[uuid] = self._withheld.pop(uuid)
        return dict(self._offers)

    async def _is_idle(self, uuid: str) -> bool:
        """Whether no program computes on a card; if the driver does not say, it is asked again the next time."""
        try:
            return not await self._nvml.mig.is_busy(uuid)
        except CardReadError:
            return False

    async def _find_used(self, uuids: Collection[str]) -> tuple[Sequence[FullPod] | None, set[str]]:
        """Return the node's pods, and which of the cards are in use: all where that is not known, without pods then."""
        try:
            pods = await self._list_pods()
            named = _find_cards_of(pods)
        except (ApiError, WireError) as error:
            _log.error("it is not known which cards are in use, none is emptied", error=str(error))
            return None, set(uuids)
        return pods, {uuid for uuid in uuids if uuid in named or not await self._is_idle(uuid)}

    async def _empty(self, uuid: str) -> bool:
        """Make an idle card ready to be divided; log and return False when that fails."""
        try:
            await self._book.empty(uuid)
        except CardReadError as error:
            self._complain(uuid, "card cannot be divided, it is not offered", str(error))
            return False
        return True

    def _complain(self, uuid: str, event: str, error: str) -> None:
        """Log what is wrong with a card, or with none in particular, once for each reason."""
        if self._complaints.get(uuid) != error:
            self._complaints[uuid] = error
            _log.error(event, error=error, **({"uuid": uuid} if uuid else {}))

    async def _destroy_made(
        self, pod: Pod, claims: Iterable[MigAllocation], runtimes: Mapping[InstanceKey, MigRuntime]
    ) -> None:
        made = [(claim.gpu_uuid, runtimes[key_of(claim)]) for claim in claims if key_of(claim) in runtimes]
        await self._book.give_back(pod, [(uuid, runtime.gpu_instance_id) for uuid, runtime in made])


def _find_cards_of(pods: Iterable[FullPod]) -> set[str]:
    """Return the UUIDs of the cards of pods that are not over; raises WireError when an annotation cannot be read."""
    return {uuid for pod in pods if not pod.is_over for uuid in read_cards(pod)}


def _is_through(pod: FullPod) -> bool:
    """Whether a pod no longer uses its cards: it is over, or being deleted with no container running."""
    if pod.is_over:
        return True
    statuses = [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
    return (
        pod.is_terminating
        and bool(statuses)
        and all(status.state is not None and status.state.terminated is not None for status in statuses)
    )
