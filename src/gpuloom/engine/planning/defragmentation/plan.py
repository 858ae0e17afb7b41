"""The moves that make room for a pod, and those that strand less."""

from dataclasses import dataclass
from typing import NamedTuple

from gpuloom.engine.state.ledger import Reservation


class FreeShares(NamedTuple):
    """Free shares, in cards: all, and those that pods to come cannot use on average."""

    free: float
    stranded: float


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


@dataclass(frozen=True, slots=True)
class TidyingStep:
    """Pods that move off a node together.

    freed  by how many cards' worth less is stranded once they have
    """

    node: str
    moves: tuple[PodMove, ...]
    freed: float


@dataclass(frozen=True, slots=True)
class TidyingPlan:
    """Moves that strand less of what is free, those that do most per move first.

    before, after  of all cards, as things are and when all moves are made
    """

    steps: tuple[TidyingStep, ...]
    before: FreeShares
    after: FreeShares

    @property
    def moves(self) -> tuple[PodMove, ...]:
        """The moves of all steps, in order."""
        return tuple(move for step in self.steps for move in step.moves)
