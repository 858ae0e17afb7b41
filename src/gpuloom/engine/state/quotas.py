"""Resource quotas as HAMi enforces them: memory and cores of a vendor's cards, by namespace (scheduler 6.10)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from gpuloom.engine.state.ledger import Ledger
from gpuloom.engine.state.usage import Usage
from gpuloom.model.request_columns import UNLIMITED, Headroom
from gpuloom.vendors.profile import Profile
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Quantity, ResourceQuota
from gpuloom.wire.quantity import decode_strict_integer, floor_quantity

MOST_IN_NAMESPACE = 100
"""So many quotas of a namespace that limit cards are compared whenever one of them changes; where there are more, the
namespace may take nothing.
"""
_PREFIX = "limits."
_NO_LIMITS: Mapping[str, int] = {}


def limit_of(resource: str) -> str:
    """Return the key under which a quota limits a resource."""
    return _PREFIX + resource


def _read_limit(quantity: Quantity) -> int:
    """Read a limit as the whole number that it allows; one that cannot be read allows nothing (trust T-11)."""
    try:
        return floor_quantity(quantity)
    except WireError:
        return 0


@dataclass(frozen=True, slots=True)
class Counted:
    """What a resource counts: memory and cores of the cards of these vendors. Chips of one section may share a name."""

    memory_of: tuple[str, ...]
    cores_of: tuple[str, ...]


def find_limited(catalog: Iterable[Profile]) -> Mapping[str, Counted]:
    """Return the resources that a quota can limit: memory and cores of the vendors' cards, where they have names."""
    profiles = tuple(catalog)
    names = (name for one in profiles for name in (one.resources.memory, one.resources.cores) if name)
    return {
        name: Counted(
            tuple(one.word for one in profiles if one.resources.memory == name),
            tuple(one.word for one in profiles if one.resources.cores == name),
        )
        for name in dict.fromkeys(names)
    }


def keep_limits(hard: Mapping[str, Quantity] | None, resources: Iterable[str]) -> dict[str, Quantity]:
    """Return what a quota's ``spec.hard`` says of these resources, whatever else stands in it and however much."""
    keys = map(limit_of, resources)
    return {key: hard[key] for key in keys if key in hard} if hard else {}


@dataclass(slots=True)
class QuotaBook:
    """The limits of every quota object; where a namespace has several, the smallest counts (B-43).

    resources  those that can be limited, and what each counts; of others nothing is kept
    _quotas    what each quota limits, by namespace, name and resource
    _limits    what a namespace may hold of each resource that is limited
    """

    resources: Mapping[str, Counted]
    _quotas: dict[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    _limits: dict[str, Mapping[str, int]] = field(default_factory=dict)

    def fork(self) -> "QuotaBook":
        """Return a book of its own."""
        return QuotaBook(self.resources, dict(self._quotas), dict(self._limits))

    def apply(self, quota: ResourceQuota, *, closes: bool = True) -> None:
        """Take a quota as it is now; without ``closes``, what Go has no integer for limit nothing, as in HAMi."""
        read = _read_limit if closes else decode_strict_integer
        limits = {
            key.removeprefix(_PREFIX): value
            for key, quantity in keep_limits(quota.spec.hard, self.resources).items()
            if (value := read(quantity)) is not None
        }
        self._replace(quota, limits)

    def delete(self, quota: ResourceQuota) -> None:
        """Take that a quota is gone."""
        self._replace(quota, _NO_LIMITS)

    def limits(self, namespace: str) -> Mapping[str, int]:
        """Return a namespace's limits by resource name."""
        return self._limits.get(namespace, _NO_LIMITS)

    def has_too_many(self, namespace: str) -> bool:
        """Tell whether a namespace has more quotas than are compared, and may therefore take nothing."""
        return len(self._quotas.get(namespace, ())) > MOST_IN_NAMESPACE

    def _replace(self, quota: ResourceQuota, limits: Mapping[str, int]) -> None:
        """Let a quota limit this from now on; one that limits nothing is not kept."""
        namespace = quota.namespace
        # Another mapping: forks have this one.
        quotas = dict(self._quotas.get(namespace, {}))
        if limits:
            quotas[quota.name] = limits
        else:
            quotas.pop(quota.name, None)
        self._quotas[namespace] = quotas
        self._limits[namespace] = (
            dict.fromkeys(self.resources, 0) if self.has_too_many(namespace) else _find_smallest(quotas.values())
        )
        if not quotas:
            del self._quotas[namespace], self._limits[namespace]

    def used(self, namespace: str, resource: str, ledger: Ledger) -> int:
        """Sum what a namespace holds of a resource, of all cards that this counts; memory in MiB."""
        counted = self.resources[resource]
        memory_mib = sum([ledger.namespace_usage(namespace, word).memory_mib for word in counted.memory_of])
        return memory_mib + sum([ledger.namespace_usage(namespace, word).cores for word in counted.cores_of])

    def headroom(self, namespace: str, profile: Profile, ledger: Ledger) -> Headroom:
        """Return what a namespace may still take of a vendor's cards; memory limits count in the request's unit."""
        names, limits = profile.resources, self.limits(namespace)
        memory, cores = limits.get(names.memory), limits.get(names.cores)
        factor = max(profile.request.memory_factor, 1)
        return Headroom(
            UNLIMITED if memory is None else memory * factor - self.used(namespace, names.memory, ledger),
            UNLIMITED if cores is None else cores - self.used(namespace, names.cores, ledger),
        )


@dataclass(frozen=True, slots=True)
class Exceeded:
    """What is asked of a resource and is more than is left of it, in the unit of that resource."""

    resource: str
    asked: int
    left: int

    def __str__(self) -> str:
        return f"asks for {self.asked} of {self.resource}, {self.left} are left"


def find_exceeded(asked: Sequence[tuple[Profile, Usage]], headroom: Callable[[Profile], Headroom]) -> Exceeded | None:
    """Return what of these amounts is too much, None for nothing; an amount of 0 never is.

    headroom  what a namespace may still take of a vendor's cards; chips that share a resource share what is left of it
    """
    for profile, own in asked:
        if not (own.memory_mib or own.cores):
            continue
        names, left = profile.resources, headroom(profile)
        memory_mib = sum(one.memory_mib for other, one in asked if other.resources.memory == names.memory)
        cores = sum(one.cores for other, one in asked if other.resources.cores == names.cores)
        if memory_mib > left.memory_mib:
            factor = max(profile.request.memory_factor, 1)
            return Exceeded(names.memory, ceil(memory_mib / factor), max(left.memory_mib, 0) // factor)
        if cores > left.cores:
            return Exceeded(names.cores, cores, max(left.cores, 0))
    return None


def _find_smallest(quotas: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    smallest: dict[str, int] = {}
    for limits in quotas:
        for resource, value in limits.items():
            smallest[resource] = min(value, smallest.get(resource, value))
    return smallest
