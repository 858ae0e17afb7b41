"""What a pod holds: the arithmetic of init, sidecar and regular containers (scheduler 4.5)."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from gpuloom.engine.request.demand import ContainerType
from gpuloom.model.share import ContainerShares, Share


class Usage(msgspec.Struct, frozen=True, gc=False):
    """How much of a card is held."""

    slots: int = 0
    memory_mib: int = 0
    cores: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.slots + other.slots, self.memory_mib + other.memory_mib, self.cores + other.cores)

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(self.slots - other.slots, self.memory_mib - other.memory_mib, self.cores - other.cores)

    def __or__(self, other: "Usage") -> "Usage":
        """Return the larger in each respect: what two that never run together need."""
        return Usage(max(self.slots, other.slots), max(self.memory_mib, other.memory_mib), max(self.cores, other.cores))


NOTHING = Usage()
_REMEMBERED = 1024


def usage_of(share: Share) -> Usage:
    """Return what one share holds; one value for all that are equal, for pods come in few sizes."""
    return _usage(share.slots, share.memory_mib, share.cores)


_usage = lru_cache(_REMEMBERED)(Usage)


def sum_for_quota(usages: Iterable[Usage], *, bits: bool) -> Usage:
    """Sum what is held of several cards as quotas count it; ``bits`` if cores are bits of a mask (vendors 4.11)."""
    slots = memory_mib = cores = 0
    for one in usages:
        slots, memory_mib = slots + one.slots, memory_mib + one.memory_mib
        cores += one.cores.bit_count() if bits else one.cores
    return Usage(slots, memory_mib, cores)


def run_at_once(container_types: Sequence[ContainerType]) -> bool:
    """Tell whether all containers run together, sidecars among them: nearly all pods are like this."""
    return ContainerType.INIT not in container_types


def collapse(
    containers: Sequence[ContainerShares], container_types: Sequence[ContainerType], *, init_over: bool = False
) -> dict[str, Usage]:
    """Return what the pod as a whole holds, by the id that stands in its shares.

    Sidecars run beside everything, other init containers one at a time before the regular ones: the sum of sidecars
    plus the larger of the largest init container and the sum of the regular ones. With ``init_over`` the other init
    containers have ended and hold nothing any more.
    """
    if run_at_once(container_types):
        return _add_up(containers)
    held: dict[ContainerType, dict[str, Usage]] = {one: {} for one in ContainerType}
    for position, shares in enumerate(containers):
        its_type = container_types[position] if position < len(container_types) else ContainerType.REGULAR
        for share in shares:
            one, known = usage_of(share), held[its_type].get(share.uuid)
            if known is not None:
                one = known | one if its_type is ContainerType.INIT else known + one
            held[its_type][share.uuid] = one
    init, sidecars, regular = held[ContainerType.INIT], held[ContainerType.SIDECAR], held[ContainerType.REGULAR]
    if not sidecars and (init_over or not init):
        return dict(sorted(regular.items()))
    before = {} if init_over else init
    return {
        uuid: sidecars.get(uuid, NOTHING) + (before.get(uuid, NOTHING) | regular.get(uuid, NOTHING))
        for uuid in sorted({*before, *sidecars, *regular})
    }


def _add_up(containers: Sequence[ContainerShares]) -> dict[str, Usage]:
    """Sum what containers that run together hold."""
    held: dict[str, Usage] = {}
    for shares in containers:
        for share in shares:
            one = usage_of(share)
            held[share.uuid] = held[share.uuid] + one if share.uuid in held else one
    return dict(sorted(held.items())) if len(held) > 1 else held
