"""Whether this replica leads: it follows the lease for which the kube-scheduler beside it competes (binding 5).

Pure: the lease and the time come in, what follows from them is said. Source: scheduler 8.4.
"""

from dataclasses import dataclass

from gpuloom.wire.objects import Lease, LeaseSpec

RENEWAL_LIMIT_S = 10.0
"""Without a renewal for so long, kube-scheduler gives up leading; a new leader waits for the whole lease."""


@dataclass(frozen=True, slots=True)
class Term:
    """One time of leading: it ends with any change, also when the same holder comes back."""

    holder: str
    transitions: int


class LeaseState:
    """What is known of the lease, in monotonic seconds.

    ``host_name`` is this pod's: kube-scheduler writes ``<host name>_<uuid>``, so the underscore belongs to the test
    (B-35).
    """

    def __init__(self, host_name: str) -> None:
        self._prefix = f"{host_name}_"
        self._seen: LeaseSpec | None = None
        self._renewed_at = 0.0

    @property
    def renewed_at(self) -> float:
        """When the lease was last seen to change."""
        return self._renewed_at

    def observe(self, lease: Lease | None, now: float) -> None:
        """Take the lease as it is now, None when there is none; the same again is no renewal."""
        spec = lease.spec if lease is not None else None
        if spec != self._seen:
            self._seen, self._renewed_at = spec, now

    def term(self, now: float) -> Term | None:
        """Return the term in which this replica leads now, None when it does not."""
        if self._seen is None or self.obstacle(now):
            return None
        return Term(self._seen.holder_identity or "", self._seen.lease_transitions or 0)

    def obstacle(self, now: float) -> str:
        """Why this replica does not lead now, empty when it does."""
        if self._seen is None or not self._seen.holder_identity:
            return "nobody leads: the lease has no holder"
        if not self._seen.holder_identity.startswith(self._prefix):
            return f"not the leader: {self._seen.holder_identity} is"
        if now - self._renewed_at >= self._limit_s:
            return "not leading for certain: the lease was not renewed in time"
        return ""

    @property
    def _limit_s(self) -> float:
        duration_s = self._seen.lease_duration_seconds if self._seen else None
        return min(RENEWAL_LIMIT_S, duration_s or RENEWAL_LIMIT_S)
