"""What remedies are looked for: a pod that does not fit, and the cluster as it was seen."""

from collections.abc import Generator
from dataclasses import dataclass

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.explanation.node_fork import NodeFork, fork_node
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

    def fork_node(self, node: str) -> NodeFork:
        """Fork off a node to try something on, without the pod itself."""
        return fork_node(self.scheduler, node, self.headroom, without=(self.demand.uid,))
