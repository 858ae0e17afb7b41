"""What remedies are looked for: a pod that does not fit, and the cluster as it was seen."""

from collections.abc import Generator
from dataclasses import dataclass

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.explanation.imagining import ImaginedNode, imagine
from gpuloom.engine.explanation.rule_matrix import RuleMatrix
from gpuloom.engine.explanation.values import Remedy
from gpuloom.engine.request.demand import Demand
from gpuloom.model.request_columns import Headroom

Steps = Generator[None, None, tuple[Remedy, ...]]
UNBOUNDED = Headroom()


@dataclass(frozen=True, slots=True)
class Question:
    """A pod that does not fit, and the cluster as it was seen."""

    scheduler: VendorScheduler
    demand: Demand
    headroom: Headroom
    matrix: RuleMatrix
    decision: Decision
    most_names: int

    @property
    def cards(self) -> int:
        """How many cards the container asks for that is placed first."""
        return self.matrix.request.cards

    def imagine(self, node: str) -> ImaginedNode:
        """Copy a node to try something on."""
        return imagine(self.scheduler, node, self.headroom, without=(self.demand.uid,))
