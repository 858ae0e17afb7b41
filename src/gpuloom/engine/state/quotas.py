"""Resource quotas as HAMi enforces them: memory and cores of a vendor's cards, by namespace (scheduler 6.10)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuloom.engine.state.usage import Usage
from gpuloom.model.request_columns import UNLIMITED, Headroom
from gpuloom.vendors.profile import Profile
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Quantity, ResourceQuota
from gpuloom.wire.quantity import decode_strict_integer, floor_quantity

_PREFIX = "limits."


def limit_of(resource: str) -> str:
    """Return the key under which a quota limits a resource."""
    return _PREFIX + resource


def _read_limit(quantity: Quantity) -> int:
    """Read a limit as the whole number that it allows; one that cannot be read allows nothing (trust T-11)."""
    try:
        return floor_quantity(quantity)
    except WireError:
        return 0


@dataclass(slots=True)
class QuotaBook:
    """The limits of every quota object; where a namespace has several, the smallest counts (B-43)."""

    _limits: dict[str, dict[str, Mapping[str, int]]] = field(default_factory=dict)

    def fork(self) -> "QuotaBook":
        """Return a book of its own."""
        return QuotaBook({namespace: dict(quotas) for namespace, quotas in self._limits.items()})

    def apply(self, quota: ResourceQuota, *, closes: bool = True) -> None:
        """Take a quota as it is now; without ``closes``, what Go has no integer for limit nothing, as in HAMi."""
        read = _read_limit if closes else decode_strict_integer
        limits = {
            key.removeprefix(_PREFIX): value
            for key, quantity in (quota.spec.hard or {}).items()
            if key.startswith(_PREFIX) and (value := read(quantity)) is not None
        }
        self._limits.setdefault(quota.namespace, {})[quota.name] = limits

    def delete(self, quota: ResourceQuota) -> None:
        """Take that a quota is gone."""
        self._limits.get(quota.namespace, {}).pop(quota.name, None)

    def limits(self, namespace: str) -> Mapping[str, int]:
        """Return a namespace's limits by resource name."""
        smallest: dict[str, int] = {}
        for limits in self._limits.get(namespace, {}).values():
            for resource, value in limits.items():
                smallest[resource] = min(value, smallest.get(resource, value))
        return smallest

    def headroom(self, namespace: str, profile: Profile, used: Usage) -> Headroom:
        """Return what a namespace may still take of a vendor's cards; memory limits count in the request's unit."""
        limits = self.limits(namespace)
        memory, cores = limits.get(profile.resources.memory), limits.get(profile.resources.cores)
        return Headroom(
            UNLIMITED if memory is None else memory * max(profile.request.memory_factor, 1) - used.memory_mib,
            UNLIMITED if cores is None else cores - used.cores,
        )
