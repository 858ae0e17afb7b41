"""Whether another scheduler decides over the same cards: the leases of HAMi's and gpuloom's schedulers (trust T-15).

Who renews a lease is alive. Only renewals that were seen here count; the holders' own times are not read. A lease in a
named namespace keeps this process from deciding until it is known that nobody renews it. In other namespaces any tenant
may write a lease, so there it is only reported. Pure: leases and the time come in.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gpuloom.wire.objects import Lease, LeaseSpec

LeaseKey = tuple[str, str]
"""Namespace and name."""

MOST_ELSEWHERE = 1000
"""So many leases are remembered of namespaces that are not named."""
_USUAL_DURATION_S = 15


@dataclass(slots=True)
class _Held:
    """A lease that somebody holds; times are monotonic seconds.

    changed   when it was seen for the first time, or last seen to change
    is_alive  it has changed while we watched
    is_over   nobody has renewed it in time, and the API server has confirmed that
    """

    spec: LeaseSpec
    changed: float
    is_alive: bool = False
    is_over: bool = False

    def has_run_out(self, now: float) -> bool:
        return now - self.changed >= (self.spec.lease_duration_seconds or _USUAL_DURATION_S)


class RivalLeases:
    """What is known of the leases with certain names, but for the one that this process follows itself.

    Nothing is in the way before ``expect`` says which names will be listed; from then on one that has not been is.
    ``ignored`` counts leases in other namespaces that were too many to be remembered.
    """

    def __init__(self, own: LeaseKey, namespaces: frozenset[str]) -> None:
        self.ignored = 0
        self._own = own
        self._namespaces = namespaces | {own[0]}
        self._held: dict[LeaseKey, _Held] = {}
        self._unlisted: set[str] = set()

    def expect(self, names: Iterable[str]) -> None:
        """Take that all leases of these names will be listed."""
        self._unlisted |= set(names)

    def replace(
        self, name: str, leases: Iterable[Lease], now: float, unreadable: AbstractSet[LeaseKey] = frozenset()
    ) -> None:
        """Take a complete list of the leases of a name; what was known stays of those that cannot be read."""
        listed = {(lease.namespace, lease.name): lease for lease in leases}
        for key in [key for key in self._held if key[1] == name and key not in listed.keys() | unreadable]:
            del self._held[key]
        for lease in listed.values():
            self.observe(lease, now)
        unknown = unreadable - self._held.keys() - {self._own}
        if any(namespace in self._namespaces for namespace, _ in unknown):
            self._unlisted.add(name)
        else:
            self._unlisted.discard(name)

    def observe(self, lease: Lease, now: float) -> None:
        """Take a lease as it is now."""
        key = (lease.namespace, lease.name)
        known = self._held.get(key)
        if key == self._own:
            return
        if not lease.spec.holder_identity:
            self._held.pop(key, None)
        elif known is not None:
            if known.spec != lease.spec:
                self._held[key] = _Held(lease.spec, now, is_alive=True)
        elif key[0] in self._namespaces or self._count_elsewhere() < MOST_ELSEWHERE:
            self._held[key] = _Held(lease.spec, now)
        else:
            self.ignored += 1

    def remove(self, key: LeaseKey) -> None:
        """Take that a lease is gone."""
        self._held.pop(key, None)

    def doubtful(self, now: float) -> list[LeaseKey]:
        """Return the leases in the way whose time has run out, as far as the watch has shown: they are to be read."""
        found = ((key, held) for key, held in self._held.items() if key[0] in self._namespaces)
        return [key for key, held in found if not held.is_over and held.has_run_out(now)]

    def confirm(self, key: LeaseKey, lease: Lease | None, now: float) -> None:
        """Take what the API server answered about a doubtful lease, None when there is none."""
        if lease is None:
            self.remove(key)
            return
        self.observe(lease, now)
        held = self._held.get(key)
        if held is not None and held.has_run_out(now):
            held.is_over, held.is_alive = True, False

    def obstacle(self) -> str:
        """Why nobody may lead here, empty when nothing is known against it."""
        if self._unlisted:
            names = ", ".join(sorted(self._unlisted))
            why = f"leases called {names} are not listed yet, or one cannot be read"
            return f"it is not known whether another scheduler decides: {why}"
        for (namespace, name), held in self._held.items():
            if namespace in self._namespaces and not held.is_over:
                holder = held.spec.holder_identity
                if held.is_alive:
                    return f"another scheduler decides: {holder} renews the lease {namespace}/{name}"
                return f"another scheduler may decide: {holder} holds the lease {namespace}/{name}, perhaps no more"
        return ""

    def named(self, now: float) -> list[LeaseKey]:
        """Return the leases of the named namespaces that somebody renews."""
        return [key for key in self._alive(now) if key[0] in self._namespaces]

    def elsewhere(self, now: float) -> list[LeaseKey]:
        """Return those of all other namespaces."""
        return [key for key in self._alive(now) if key[0] not in self._namespaces]

    def holder(self, key: LeaseKey) -> str:
        """Return who holds a lease."""
        held = self._held.get(key)
        return (held.spec.holder_identity or "") if held is not None else ""

    def _alive(self, now: float) -> list[LeaseKey]:
        return [key for key, held in self._held.items() if held.is_alive and not held.has_run_out(now)]

    def _count_elsewhere(self) -> int:
        return sum(1 for namespace, _ in self._held if namespace not in self._namespaces)
