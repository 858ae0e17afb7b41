"""Make instances for pods, and destroy them when their pods are gone (device plugin 12.4).

In doubt an instance stays: while the plugin runs, it is destroyed only if its pod is known and is over; at the plugin's
start, only if it is known to belong to nobody and nothing computes on it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

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
from gpuloom.node.nvml import Gpu, Nvml, Part, PartProfile
from gpuloom.node.settings import NodeSettings
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.objects import Pod

PERIOD_S = 5.0
_log = structlog.get_logger(__name__)

_Owned = tuple[str, int]
"""UUID of a card and id of a GPU instance on it."""

_Held = tuple[FullPod, MigAllocation]
"""A pod and what it was promised."""


class MigKeeper:
    """The instances on one node's cards, and the pods that they belong to."""

    def __init__(self, settings: NodeSettings, client: KubeClient, nvml: Nvml, *, sleep: Sleep = asyncio.sleep) -> None:
        self._settings = settings
        self._client = client
        self._nvml = nvml
        self._bound_pods = bound_pods(settings.resource_name)
        self._sleep = sleep
        self._owners: dict[_Owned, str] = {}
        self._layouts: dict[str, tuple[Layout, ...]] | None = None if settings.mig_allowlist else {}
        self._offers: dict[str, MigOffer] = {}
        self._withheld: dict[str, MigOffer] = {}
        self._complaints: dict[str, str] = {}
        self._turn = asyncio.Lock()

    async def prepare(self, gpus: Iterable[Gpu]) -> Mapping[str, MigOffer]:
        """Return what the cards can be divided into, empty idle ones, and adopt what running pods hold.

        On cards of which pods hold parts, idle instances that belong to nobody are destroyed. A card in use is offered
        if MIG is on; :meth:`divide_idle` divides the others later. If the users of the cards are not known, no card is
        touched. Raises CardReadError.
        """
        gpus = tuple(gpus)
        self._withheld, self._offers = await self._read_offers(gpus), {}
        self._complaints.clear()
        held, kept = await self._find_used()
        for pod, allocation in held:
            if allocation.gpu_uuid in kept:
                await self._adopt(pod, allocation)
        for uuid in self._withheld:
            await self._clear(uuid, [one for pod, one in held if one.gpu_uuid == uuid and not pod.is_over])
        divided = {gpu.uuid for gpu in gpus if gpu.can_be_divided}
        for uuid in kept.intersection(self._withheld).difference(divided):
            _log.warning("card is not offered before it is idle, MIG is off on it", uuid=uuid)
        return self._offer(
            [uuid for uuid in self._withheld if (uuid in divided if uuid in kept else await self._empty(uuid))]
        )

    async def divide_idle(self) -> Mapping[str, MigOffer]:
        """Divide cards that could not be divided before and are idle now; return all offers if there is a new one.

        Raises ApiError and WireError; then no card was touched.
        """
        if not self._withheld:
            return {}
        async with self._turn:
            named = _find_cards_of(await self._list_pods())
            idle = [uuid for uuid in self._withheld if uuid not in named and await self._is_idle(uuid)]
            ready = [uuid for uuid in idle if await self._empty(uuid)]
            return self._offer(ready) if ready else {}

    async def create(self, pod: Pod, requests: Sequence[Sequence[str]]) -> Mapping[InstanceKey, MigRuntime]:
        """Make the instances that the pod's containers were promised, all or none.

        Raises AllocationError.
        """
        claims = find_claims(pod, requests, self._layouts)
        runtimes: dict[InstanceKey, MigRuntime] = {}
        async with self._turn:
            await self._make_room(pod)
            try:
                with hold(self._settings.mig_lock):
                    for claim in claims:
                        runtimes[key_of(claim)] = await self._create_one(pod, claim)
            except CardReadError as error:
                await self._destroy_made(claims, runtimes)
                raise AllocationError(f"pod {pod.full_name} cannot have its MIG instances: {error}") from error
        return runtimes

    async def roll_back(
        self, pod: Pod, requests: Sequence[Sequence[str]], runtimes: Mapping[InstanceKey, MigRuntime]
    ) -> None:
        """Destroy what :meth:`create` made; what cannot be destroyed now is destroyed when the pod is gone."""
        async with self._turn:
            await self._destroy_made(find_claims(pod, requests, self._layouts), runtimes)

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
        """Destroy the instances of pods that are over.

        Raises ApiError and WireError; then nothing was destroyed.
        """
        async with self._turn:
            await self._take_back_all()

    async def _make_room(self, pod: Pod) -> None:
        """Destroy the instances of pods that are over: the scheduler gives their places away at once."""
        try:
            await self._take_back_all()
        except (ApiError, WireError) as error:
            _log.warning("MIG instances of other pods stay as they are", pod=pod.full_name, error=str(error))

    async def _take_back_all(self) -> None:
        if not self._owners:
            return
        pods = await self._list_pods()
        alive = {pod.metadata.uid for pod in pods if not _is_through(pod)}
        named = {
            allocation.runtime.mig_uuid
            for pod in pods
            if pod.metadata.uid in alive
            for allocation in read_allocations(pod)
            if allocation.runtime
        }
        for owned in [owned for owned, owner in self._owners.items() if owner not in alive]:
            await self._try_to_take_back(owned, named)

    async def _try_to_take_back(self, owned: _Owned, named: Iterable[str] = ()) -> None:
        """Destroy one instance now, or the next time if that fails."""
        try:
            await self._take_back(owned, named)
        except CardReadError as error:
            _log.warning("MIG instance stays for now", uuid=owned[0], gpu_instance=owned[1], error=str(error))

    async def _read_offers(self, gpus: Iterable[Gpu]) -> dict[str, MigOffer]:
        offers = {}
        for gpu in gpus:
            known = await self._nvml.mig.read_profiles(gpu.uuid)
            offer = self._build_offer(gpu, known)
            if offer is None:
                _log.error("no MIG profile is allowed for this card, it is not offered", uuid=gpu.uuid, model=gpu.name)
            else:
                offers[gpu.uuid] = offer
        return offers

    def _build_offer(self, gpu: Gpu, known: Sequence[PartProfile]) -> MigOffer | None:
        if self._layouts is None:
            return build_offer(gpu, known, self._settings.mig_allowlist)
        self._layouts[gpu.uuid] = lay_out_card(gpu, known, self._settings.mig_geometries)
        return MigOffer((), self._settings.device_split_count) if any(self._layouts[gpu.uuid]) else None

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

    async def _find_used(self) -> tuple[Sequence[_Held], set[str]]:
        """Return what pods were promised and which cards are in use; nothing and all cards if that is not known."""
        try:
            pods = await self._list_pods()
            held = [(pod, promise) for pod in pods for promise in read_promises(pod, self._layouts)]
            busy = {uuid for uuid in self._withheld if await self._nvml.mig.is_busy(uuid)}
            return held, busy | _find_cards_of(pods)
        except (ApiError, WireError, CardReadError) as error:
            _log.error("it is not known which cards are in use, none is emptied", error=str(error))
            return [], set(self._withheld)

    async def _empty(self, uuid: str) -> bool:
        """Make an idle card ready to be divided; log and return False when that fails."""
        try:
            with hold(self._settings.mig_lock):
                await self._nvml.mig.enable(uuid)
                for part in await self._nvml.mig.list_parts(uuid):
                    await self._nvml.mig.destroy_part(uuid, part.gpu_instance_id)
                    _log.info("idle MIG instance destroyed", uuid=uuid, profile=part.profile)
        except CardReadError as error:
            self._complain(uuid, str(error))
            return False
        return True

    def _complain(self, uuid: str, error: str) -> None:
        """Log why a card cannot be divided, once for each reason."""
        if self._complaints.get(uuid) != error:
            self._complaints[uuid] = error
            _log.error("card cannot be divided, it is not offered", uuid=uuid, error=error)

    async def _adopt(self, pod: Pod, allocation: MigAllocation) -> None:
        """Record a pod's instance as its own; one that is not as promised stays and belongs to nobody."""
        place = allocation.profile, allocation.placement
        parts = await self._nvml.mig.list_parts(allocation.gpu_uuid)
        for part in parts:
            if (part.profile, part.placement) == place and allocation.runtime in {part.runtime, None}:
                self._owners[allocation.gpu_uuid, part.gpu_instance_id] = pod.metadata.uid
                return
        if allocation.runtime:
            _log.error(
                "MIG instance is not what its pod was promised",
                pod=pod.full_name,
                uuid=allocation.gpu_uuid,
                profile=allocation.profile,
                instance=allocation.runtime.mig_uuid,
            )

    async def _clear(self, uuid: str, promises: Sequence[MigAllocation]) -> None:
        """Destroy a card's instances that belong to nobody, if living pods were promised parts of that card."""
        for part in await self._nvml.mig.list_parts(uuid) if promises else ():
            owned = uuid, part.gpu_instance_id
            if owned in self._owners or any(_may_be(part, promise) for promise in promises):
                continue
            try:
                await self._destroy_unless_busy(owned)
            except CardReadError as error:
                _log.warning("MIG instance of nobody stays", uuid=uuid, gpu_instance=owned[1], error=str(error))

    async def _destroy_unless_busy(self, owned: _Owned) -> None:
        if await self._nvml.mig.is_part_busy(*owned):
            return
        with hold(self._settings.mig_lock):
            await self._nvml.mig.destroy_part(*owned)
        _log.info("MIG instance of nobody destroyed", uuid=owned[0], gpu_instance=owned[1])

    async def _create_one(self, pod: Pod, claim: MigAllocation) -> MigRuntime:
        runtime = await self._nvml.mig.create_part(claim.gpu_uuid, claim.profile, claim.placement)
        self._owners[claim.gpu_uuid, runtime.gpu_instance_id] = pod.metadata.uid
        _log.info("MIG instance made", pod=pod.full_name, uuid=claim.gpu_uuid, instance=runtime.mig_uuid)
        return runtime

    async def _destroy_made(self, claims: Iterable[MigAllocation], runtimes: Mapping[InstanceKey, MigRuntime]) -> None:
        for claim in claims:
            if runtime := runtimes.get(key_of(claim)):
                await self._try_to_take_back((claim.gpu_uuid, runtime.gpu_instance_id))

    async def _take_back(self, owned: _Owned, named: Iterable[str]) -> None:
        """Destroy one instance, unless a living pod's annotation names it."""
        uuid, gpu_instance_id = owned
        parts = {part.gpu_instance_id: part for part in await self._nvml.mig.list_parts(uuid)}
        part = parts.get(gpu_instance_id)
        if part and part.runtime and part.runtime.mig_uuid in named:
            return
        with hold(self._settings.mig_lock):
            await self._nvml.mig.destroy_part(uuid, gpu_instance_id)
        del self._owners[owned]
        _log.info("MIG instance destroyed", uuid=uuid, gpu_instance=gpu_instance_id)


def _find_cards_of(pods: Iterable[FullPod]) -> set[str]:
    """Return the UUIDs of the cards of pods that are not over; raises WireError when an annotation cannot be read."""
    return {uuid for pod in pods if not pod.is_over for uuid in read_cards(pod)}


def _may_be(part: Part, promise: MigAllocation) -> bool:
    """Whether an instance may be the promised one: by name or place once it was made, by profile and place before."""
    if promise.runtime is None:
        return (part.profile, part.placement) == (promise.profile, promise.placement)
    is_named = part.runtime is not None and part.runtime.mig_uuid == promise.runtime.mig_uuid
    return is_named or part.placement.overlaps(promise.placement)


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
