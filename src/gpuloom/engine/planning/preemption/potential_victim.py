"""What preemption must know of a pod that holds cards, beside its reservation."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gpuloom.engine.state.ledger import Reservation


@dataclass(frozen=True, slots=True)
class PotentialVictim:
    """A pod that holds cards.

    priority    its priority, larger is more important
    started     Unix seconds when it started, 0 when nobody says
    budgets     the PodDisruptionBudgets that select it
    may_leave   False for a pod that is never a victim, whatever its priority
    is_leaving  whether it ends already
    """

    reservation: Reservation
    priority: int
    started: float = 0.0
    budgets: tuple[str, ...] = ()
    may_leave: bool = True
    is_leaving: bool = False

    @property
    def importance(self) -> tuple[int, float, str]:
        """Sorts the most important first: by priority, then who started first, as kube-scheduler does."""
        return -self.priority, self.started, self.reservation.uid


PotentialVictimOf = Callable[[Reservation], PotentialVictim]
"""Looks up what is known of a pod that holds cards."""


def split_by_budget(
    holders: Iterable[PotentialVictim], allowed: Mapping[str, int]
) -> tuple[tuple[PotentialVictim, ...], tuple[PotentialVictim, ...]]:
    """Return those whose leaving would break a PodDisruptionBudget, and the others, each most important first.

    allowed  how many pods each budget lets go now; a budget that is not named lets none go

    The most important use up what a budget allows, as in kube-scheduler.
    """
    left = dict(allowed)
    breaking: list[PotentialVictim] = []
    free: list[PotentialVictim] = []
    for holder in sorted(holders, key=lambda one: one.importance):
        for budget in holder.budgets:
            left[budget] = left.get(budget, 0) - 1
        (breaking if any(left[budget] < 0 for budget in holder.budgets) else free).append(holder)
    return tuple(breaking), tuple(free)
