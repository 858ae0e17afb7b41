"""What remedies are looked for: a pod that does not fit, and one node as it might be, forked off the cluster."""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.explanation.rule_matrix import RuleMatrix
from gpuloom.engine.explanation.values import Remedy
from gpuloom.engine.filtering.equivalence_class import classify
from gpuloom.engine.filtering.per_card_request import make_request_columns
from gpuloom.engine.request.demand import Demand
from gpuloom.engine.state.vendor_state import VendorState
from gpuloom.model.cards import Ints
from gpuloom.model.request_columns import Headroom, RequestColumns
from gpuloom.wire.objects import Pod


@dataclass(frozen=True, slots=True)
class NodeFork:
    """A node of which pods may come and go without consequences.

    headroom  what the namespace's quota would leave
    """

    name: str
    scheduler: VendorScheduler
    headroom: Headroom

    @property
    def state(self) -> VendorState:
        """The cluster that this node is alone in."""
        return self.scheduler.state

    def decide(self, demand: Demand, headroom: Headroom | None = None) -> Decision:
        """Ask for room."""
        # Remembered results would be wrong here: columns are changed by hand.
        self.scheduler.forget_all()
        candidates = self.scheduler.look_up((self.name,))
        return self.scheduler.decide(demand, candidates, explain=True, headroom=headroom or self.headroom)

    def fits(self, demand: Demand, headroom: Headroom | None = None) -> bool:
        """Tell whether there would be room."""
        return self.decide(demand, headroom).node is not None


def fork_node(scheduler: VendorScheduler, node: str, headroom: Headroom) -> NodeFork:
    """Fork off a node with what is on it."""
    state = scheduler.state.fork((node,))
    return NodeFork(node, VendorScheduler(state, scheduler.compiled, scheduler.options), headroom)


def count_fitting(decision: Decision) -> Generator[None, None, int]:
    """Count the nodes that would do: of pods of several containers that is found out node by node."""
    yield from decision.complete()
    return len(decision.fitting)


Steps = Generator[None, None, tuple[Remedy, ...]]


@dataclass(frozen=True, slots=True)
class Question:
    """A pod that does not fit, and the cluster as it was seen.

    nodes  where changes may help: kube-scheduler offers them, and nothing else is missing there
    matrix  of the cards of these nodes
    """

    scheduler: VendorScheduler
    pod: Pod | None
    demand: Demand
    headroom: Headroom
    matrix: RuleMatrix
    nodes: frozenset[str]

    @property
    def missing(self) -> Ints:
        """How many more cards must do at least for the container that is placed first, by position of the node."""
        return np.maximum(self.matrix.needs() - self.matrix.fitting(), 1)

    def requirements(self) -> list[RequestColumns]:
        """Return what each container asks of the cards, in order of placing."""
        table, compiled, asked = self.scheduler.state.table, self.scheduler.compiled, self.demand.requests.values()
        classes = [classify(compiled, self.demand, request, self.headroom) for request in asked]
        return [make_request_columns(compiled, table, one) for one in classes]

    def decide(self, demand: Demand, headroom: Headroom) -> Generator[None, None, Decision]:
        """Ask in steps for room on any of the nodes, of the cluster as it is."""
        yield from self.scheduler.place_ahead(demand, headroom)
        yield
        names = tuple(name for name in self.scheduler.state.table.positions if name in self.nodes)
        return self.scheduler.decide(demand, self.scheduler.look_up(names), headroom=headroom)
