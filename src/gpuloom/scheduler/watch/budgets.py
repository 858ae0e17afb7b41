"""From the watch of PodDisruptionBudgets to what plans of preemption know of them."""

from collections.abc import Iterable

from gpuloom.engine.state.budgets import Budgets, is_asked
from gpuloom.kube import Unreadable
from gpuloom.wire.budgets import BudgetSpec, DisruptionBudget, LabelSelector
from gpuloom.wire.hostpods import LabelRequirement
from gpuloom.wire.objects import ObjectMeta

_UNREADABLE = BudgetSpec(LabelSelector(match_expressions=(LabelRequirement(),)))


class BudgetHandler:
    """Applies what the API server says about PodDisruptionBudgets.

    is_listed  whether all are known that there were at the start
    """

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._known: set[tuple[str, str]] = set()
        self.is_listed = False

    def shorten(self, budget: DisruptionBudget) -> DisruptionBudget:
        """Return what is kept of a budget until all are listed: each may be very long (trust T-02)."""
        metadata = ObjectMeta(budget.name, budget.namespace)
        return DisruptionBudget(metadata, budget.spec if is_asked(budget) else _UNREADABLE, budget.status)

    def replace(self, budgets: Iterable[DisruptionBudget], unreadable: Iterable[Unreadable]) -> None:
        """Take a complete list: budgets that are not in it are gone."""
        before, self._known = self._known, set()
        for budget in budgets:
            self.apply(budget)
        for found in unreadable:
            self.take_unreadable(found)
        for namespace, name in before - self._known:
            self._budgets.delete(namespace, name)
        self.is_listed = True

    def apply(self, budget: DisruptionBudget) -> None:
        """Take a budget as it is now."""
        self._known.add((budget.namespace, budget.name))
        self._budgets.apply(budget)

    def take_unreadable(self, found: Unreadable) -> None:
        """Take a budget that is there and cannot be read: it protects every pod of its namespace."""
        self._known.add((found.metadata.namespace, found.metadata.name))
        self._budgets.apply_unreadable(found.metadata.namespace, found.metadata.name)

    def delete(self, budget: DisruptionBudget) -> None:
        """Take that a budget is gone."""
        self._known.discard((budget.namespace, budget.name))
        self._budgets.delete(budget.namespace, budget.name)
