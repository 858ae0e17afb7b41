"""What preemption must know of a pod that holds cards, beside its reservation."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gpuloom.engine.state.ledger import Reservation


@dataclass(frozen=True, slots=True)
class PotentialVictim:
    """A pod that holds cards.

    budgets     the PodDisruptionBudgets that select it
    may_leave   False for a pod that is never a victim, whatever its priority
    """

    reservation: Reservation
    budgets: tuple[str, ...] = ()
    may_leave: bool = True

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.reservation.uid

    @property
    def priority(self) -> int:
        """The pod's priority, larger is more important."""
        return self.reservation.priority

    @property
    def started_at(self) -> int:
        """Unix seconds when it started, 0 when nobody says."""
        return self.reservation.started_at

    @property
    def importance(self) -> tuple[int, int, str]:
        """Sorts the most important first: by priority, then who started first, as kube-scheduler does."""
        return -self.priority, self.started_at, self.uid


PotentialVictimOf = Callable[[Reservation], PotentialVictim]
"""Looks up what is known of a pod that holds cards."""


def is_too_young(held: Reservation, min_age_s: float, unix_s: int) -> bool:
    """Tell whether a pod got its cards too short a while ago to leave; one of which nobody knows when may leave."""
    return max(unix_s - held.decided_at, 0) < min_age_s


def split_by_budget(
    potential: Iterable[PotentialVictim], allowed: Mapping[str, int]
) -> tuple[tuple[PotentialVictim, ...], tuple[PotentialVictim, ...]]:
    """Return those whose leaving would break a PodDisruptionBudget, and the others, each most important first.

    allowed  how many pods each budget lets go now; a budget that is not named lets none go

    The most important use up what a budget allows, as in kube-scheduler.
    """
    left = dict(allowed)
    breaking: list[PotentialVictim] = []
    free: list[PotentialVictim] = []
    for one in sorted(potential, key=lambda one: one.importance):
        for budget in one.budgets:
            left[budget] = left.get(budget, 0) - 1
        (breaking if any(left[budget] < 0 for budget in one.budgets) else free).append(one)
    return tuple(breaking), tuple(free)
