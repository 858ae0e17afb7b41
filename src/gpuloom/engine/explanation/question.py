"""What remedies are looked for: a pod that does not fit, and the cluster as it was seen."""

from collections.abc import Generator
from dataclasses import dataclass

from gpuloom.engine.decider import Decider
from gpuloom.engine.decision import Decision
from gpuloom.engine.demand import Demand
from gpuloom.engine.explanation.imagining import ImaginedNode, imagine
from gpuloom.engine.explanation.picture import Picture
from gpuloom.engine.explanation.values import Remedy
from gpuloom.model.want import Headroom

Steps = Generator[None, None, tuple[Remedy, ...]]
UNBOUNDED = Headroom()


@dataclass(frozen=True, slots=True)
class Question:
    """A pod that does not fit, and the cluster as it was seen."""

    decider: Decider
    demand: Demand
    headroom: Headroom
    picture: Picture
    decision: Decision
    most_names: int

    @property
    def cards(self) -> int:
        """How many cards the container asks for that is placed first."""
        return self.picture.request.cards

    def imagine(self, node: str) -> ImaginedNode:
        """Copy a node to try something on."""
        return imagine(self.decider, node, self.headroom, without=(self.demand.uid,))
