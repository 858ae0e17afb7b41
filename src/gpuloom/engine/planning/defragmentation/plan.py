"""The moves that make room for a pod."""

from dataclasses import dataclass

from gpuloom.engine.state.ledger import Reservation


@dataclass(frozen=True, slots=True)
class PodMove:
    """A pod that leaves its node: what it holds now, and what one like it would hold."""

    pod: Reservation
    target: Reservation

    @property
    def node(self) -> str:
        """The node that would take it."""
        return self.target.node


@dataclass(frozen=True, slots=True)
class DefragmentationPlan:
    """Moves that make room for a pod on a node.

    moves      in the order in which the pods are placed; none where the pod fits already
    wanted     what the pod would hold; None where it fits already
    is_fewest  whether no plan has fewer moves, as far as every pod that moves goes where it fits now
    """

    node: str
    moves: tuple[PodMove, ...] = ()
    wanted: Reservation | None = None
    is_fewest: bool = True
