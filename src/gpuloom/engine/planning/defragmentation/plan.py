"""The moves that make room for a pod."""

from dataclasses import dataclass

from gpuloom.engine.state.ledger import Reservation


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that leaves its node, and the node that would take it."""

    pod: Reservation
    node: str


@dataclass(frozen=True, slots=True)
class DefragmentationPlan:
    """Moves that make room for a pod on a node.

    moves      in the order in which the pods are placed; none where the pod fits already
    is_fewest  whether no plan has fewer moves, as far as every pod that moves goes where it fits now
    """

    node: str
    moves: tuple[Move, ...] = ()
    is_fewest: bool = True
