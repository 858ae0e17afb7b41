"""Remembered trials: which nodes take a pod of several containers, by what the pod asks for.

For such pods the verdicts on single cards do not decide, so nodes are tried. A node that did not change since gives the
same answer to a pod of the same kind; only the others are tried again.
"""

from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuloom.engine.demand import Choice, ContainerDemand, Demand, Demands, Phase, Selection
from gpuloom.engine.placement import Placement, Unplaced
from gpuloom.engine.scores import Scores
from gpuloom.engine.table import CardTable
from gpuloom.engine.trying import Tried
from gpuloom.model.cards import Ints
from gpuloom.model.reasons import Reason
from gpuloom.model.request import Request
from gpuloom.model.want import UNBOUNDED, Headroom

UNTRIED, TAKES, REFUSES = 0, 1, 2


class Kind(msgspec.Struct, frozen=True, gc=False):
    """All that the answer of a node depends on beside its cards; never the pod.

    headroom  what the namespace's quota leaves, where that may matter
    """

    asked: tuple[tuple[Phase, Request | None], ...]
    selection: Selection
    choice: Choice
    headroom: Headroom = UNBOUNDED

    @property
    def is_passing(self) -> bool:
        """Whether others of this kind hardly follow: quotas change with every pod, cards are rarely named twice."""
        return self.headroom != UNBOUNDED or self.selection.names_uuids


def kind_of(demand: Demand, headroom: Headroom = UNBOUNDED) -> Kind:
    """Return what a pod has in common with others that nodes answer alike."""
    asked = tuple(_without_name(container) for container in demand.containers)
    return Kind(asked, demand.selection, demand.choice, headroom)


Likeness = tuple[tuple[str, str, Kind], ...]
"""What pods have in common for which there is room at the same time: vendor, namespace (quotas) and kind, each."""


def likeness_of(demands: Demands) -> Likeness:
    """Return what a pod has in common with others for which there is room whenever there is for it."""
    return tuple((word, demand.namespace, kind_of(demand)) for word, demand in demands.items())


def _without_name(container: ContainerDemand) -> tuple[Phase, Request | None]:
    return container.phase, container.request


@dataclass(slots=True)
class Trials:
    """The answers of nodes, by position.

    answers  UNTRIED, TAKES or REFUSES
    extra    what the vendor adds to the score of a node that takes the pod
    unplaced why not, of those that refuse
    """

    answers: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    extra: Scores = field(default_factory=lambda: np.zeros(0, np.float32))
    unplaced: dict[int, Unplaced] = field(default_factory=dict)
    _known: dict[tuple[tuple[tuple[Reason, int], ...], int, int], Unplaced] = field(default_factory=dict)
    _mark: int = -1

    def note(self, position: int, answer: Placement | Unplaced) -> None:
        """Remember what a node says."""
        if isinstance(answer, Placement):
            self.answers[position], self.extra[position] = TAKES, answer.extra
        else:
            self._note_refusal(position, answer)

    def note_many(self, positions: Ints, tried: Tried) -> None:
        """Remember what many nodes say."""
        self.answers[positions] = np.where(tried.takes, TAKES, REFUSES)
        self.extra[positions] = tried.extra
        for row, answer in tried.unplaced.items():
            self._note_refusal(int(positions[row]), answer)

    def _note_refusal(self, position: int, answer: Unplaced) -> None:
        """Refusals that say the same are one object, so that few texts are ever made."""
        refusal = answer.refusal
        key = (tuple(refusal.counts.items()), refusal.total, answer.turn)
        self.answers[position], self.unplaced[position] = REFUSES, self._known.setdefault(key, answer)

    def untried(self, positions: Ints) -> Ints:
        """Return those nodes that have not answered."""
        return positions[self.answers[positions] == UNTRIED]

    def refresh(self, table: CardTable) -> None:
        """Forget the answers of nodes that changed."""
        changed = table.journal.since(self._mark) if self._mark >= 0 else None
        if changed is None:
            self.answers[:] = UNTRIED
            self.unplaced.clear()
            self._known.clear()
        more = len(table.names) - len(self.answers)
        if more > 0:
            self.answers = np.append(self.answers, np.zeros(more, np.uint8))
            self.extra = np.append(self.extra, np.zeros(more, np.float32))
        for position in changed or ():
            self.answers[position] = UNTRIED
            self.unplaced.pop(position, None)
        self._mark = table.journal.mark
