"""PodDisruptionBudgets: how many pods of a kind may be evicted now."""

from gpuloom.wire.hostpods import LabelRequirement
from gpuloom.wire.objects import KubeObject, KubeStruct


class LabelSelector(KubeStruct, frozen=True):
    """Which labels a pod must have; all conditions must hold."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[LabelRequirement, ...] | None = None


class BudgetSpec(KubeStruct, frozen=True):
    """``spec`` of a budget."""

    selector: LabelSelector | None = None


class BudgetStatus(KubeStruct, frozen=True):
    """``status`` of a budget. ``disrupted_pods`` are evicted already and counted: by name, since when."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str | None] | None = None


class DisruptionBudget(KubeObject, frozen=True):
    """A PodDisruptionBudget."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()
