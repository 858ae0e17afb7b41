"""The instances on a node's cards: whose each one is, and which may be destroyed (device plugin 12.4).

In doubt an instance stays. One that belongs to a pod is destroyed when that pod is known to be over. One that belongs
to nobody is destroyed when nothing computes on it, but only on a card in question: where an earlier plugin may have
left it, or where it may have come after nobody waited for it any more.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import structlog

from gpuloom.model.mig import MigAllocation, MigRuntime
from gpuloom.node.errors import CardReadError, DriverSilentError, HalfMadeError
from gpuloom.node.mig.lockfile import hold
from gpuloom.node.nvml import MigNvml, Part
from gpuloom.wire.objects import Pod

_log = structlog.get_logger(__name__)

PartKey = tuple[str, int]
"""UUID of a card and id of a GPU instance on it."""

Held = tuple[Pod, MigAllocation]
"""A pod and what it was promised."""


class PartBook:
    """The instances that belong to pods, and the cards on which there may be others to destroy."""

    def __init__(self, mig: MigNvml, lock: Path) -> None:
        self._mig = mig
        self._lock = lock
        self._owners: dict[PartKey, str] = {}
        self._in_question: set[str] = set()
        self._mismatches: set[str] = set()

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to destroy, whichever pods there are."""
        return not (self._owners or self._in_question)

    def question(self, uuids: Iterable[str]) -> None:
        """Let the next :meth:`settle` look at these cards."""
        self._in_question.update(uuids)

    async def make(self, pod: Pod, claim: MigAllocation) -> MigRuntime:
        """Make one instance for a pod.

        Raises CardReadError.
        """
        try:
            runtime = await self._mig.create_part(claim.gpu_uuid, claim.profile, claim.placement)
        except (DriverSilentError, HalfMadeError, asyncio.CancelledError):
            # Other than after a refusal, the instance may be there or still come.
            self.question([claim.gpu_uuid])
            raise
        self._owners[claim.gpu_uuid, runtime.gpu_instance_id] = pod.metadata.uid
        _log.info("MIG instance made", pod=pod.full_name, uuid=claim.gpu_uuid, instance=runtime.mig_uuid)
        return runtime

    async def give_back(self, pod: Pod, made: Iterable[PartKey]) -> None:
        """Destroy what was made for a pod; what cannot be destroyed now is destroyed when the pod is over."""
        for key in made:
            # It may be destroyed by now, and its id be that of another pod's instance.
            if self._owners.get(key) == pod.metadata.uid:
                await self._try_to_take_back(key)

    async def take_back(self, alive: Collection[str], named: Collection[str]) -> None:
        """Destroy the instances of pods whose uid is not among `alive`, except those `named` by living pods."""
        for key in [key for key, owner in self._owners.items() if owner not in alive]:
            await self._try_to_take_back(key, named)

    async def empty(self, uuid: str) -> None:
        """Make an idle card ready to be divided.

        Raises CardReadError.
        """
        with hold(self._lock):
            await self._mig.enable(uuid)
            for part in await self._mig.list_parts(uuid):
                await self._mig.destroy_part(uuid, part.gpu_instance_id)
                _log.info("idle MIG instance destroyed", uuid=uuid, profile=part.profile)
        self._owners = {key: owner for key, owner in self._owners.items() if key[0] != uuid}
        self._in_question.discard(uuid)

    async def settle(self, held: Sequence[Held]) -> None:
        """On the cards in question, find out what is whose, and destroy what is nobody's and idle.

        `held` is all that living pods were promised. A card stays in question while it does not answer, and while an
        instance of nobody is in use.
        """
        for uuid in sorted(self._in_question):
            try:
                is_settled = await self._settle_card(uuid, [one for one in held if one[1].gpu_uuid == uuid])
            except CardReadError as error:
                _log.warning("it is not known for now whose MIG instances are", uuid=uuid, error=str(error))
            else:
                if is_settled:
                    self._in_question.discard(uuid)

    async def _settle_card(self, uuid: str, held: Sequence[Held]) -> bool:
        parts = await self._mig.list_parts(uuid)
        for pod, promise in held:
            self._adopt(pod, promise, parts)
        unclaimed = [
            part.gpu_instance_id
            for part in parts
            if (uuid, part.gpu_instance_id) not in self._owners
            and not any(_may_be(part, promise) for _, promise in held)
        ]
        return all([await self._destroy_unless_busy(uuid, each) for each in unclaimed])

    def _adopt(self, pod: Pod, promise: MigAllocation, parts: Iterable[Part]) -> None:
        """Record a pod's instance as its own; one that is not as promised stays and belongs to nobody."""
        place = promise.profile, promise.placement
        for part in parts:
            if (part.profile, part.placement) == place and promise.runtime in {part.runtime, None}:
                self._owners.setdefault((promise.gpu_uuid, part.gpu_instance_id), pod.metadata.uid)
                return
        if promise.runtime and promise.runtime.mig_uuid not in self._mismatches:
            self._mismatches.add(promise.runtime.mig_uuid)
            _log.error(
                "MIG instance is not what its pod was promised",
                pod=pod.full_name,
                uuid=promise.gpu_uuid,
                profile=promise.profile,
                instance=promise.runtime.mig_uuid,
            )

    async def _destroy_unless_busy(self, uuid: str, gpu_instance_id: int) -> bool:
        """Destroy an instance of nobody; return whether it is gone."""
        try:
            if await self._mig.is_part_busy(uuid, gpu_instance_id):
                return False
            with hold(self._lock):
                await self._mig.destroy_part(uuid, gpu_instance_id)
        except CardReadError as error:
            _log.warning("MIG instance of nobody stays", uuid=uuid, gpu_instance=gpu_instance_id, error=str(error))
            return False
        _log.info("MIG instance of nobody destroyed", uuid=uuid, gpu_instance=gpu_instance_id)
        return True

    async def _try_to_take_back(self, key: PartKey, named: Collection[str] = ()) -> None:
        """Destroy one instance now, or the next time if that fails."""
        try:
            await self._take_back(key, named)
        except CardReadError as error:
            _log.warning("MIG instance stays for now", uuid=key[0], gpu_instance=key[1], error=str(error))

    async def _take_back(self, key: PartKey, named: Collection[str]) -> None:
        """Destroy one instance, unless a living pod's annotation names it."""
        uuid, gpu_instance_id = key
        parts = {part.gpu_instance_id: part for part in await self._mig.list_parts(uuid)}
        part = parts.get(gpu_instance_id)
        if part and part.runtime and part.runtime.mig_uuid in named:
            return
        with hold(self._lock):
            await self._mig.destroy_part(uuid, gpu_instance_id)
        del self._owners[key]
        _log.info("MIG instance destroyed", uuid=uuid, gpu_instance=gpu_instance_id)


def _may_be(part: Part, promise: MigAllocation) -> bool:
    """Whether an instance may be the promised one: by name or place once it was made, by profile and place before."""
    if promise.runtime is None:
        return (part.profile, part.placement) == (promise.profile, promise.placement)
    is_named = part.runtime is not None and part.runtime.mig_uuid == promise.runtime.mig_uuid
    return is_named or part.placement.overlaps(promise.placement)
