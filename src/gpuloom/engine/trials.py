"""Remembered trials: which nodes take a pod of several containers, by what the pod asks for.

For such pods the verdicts on single cards do not decide, so nodes are tried one by one. A node that did not change
since gives the same answer to a pod of the same kind; only the others are tried again.
"""

from dataclasses import dataclass, field

import msgspec

from gpuloom.engine.demand import Choice, ContainerDemand, Demand, Demands, Phase, Selection
from gpuloom.engine.table import CardTable
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal
from gpuloom.model.request import Request


class Kind(msgspec.Struct, frozen=True, gc=False):
    """All that the answer of a node depends on beside its cards; never the pod."""

    asked: tuple[tuple[Phase, Request | None], ...]
    selection: Selection
    choice: Choice


def kind_of(demand: Demand) -> Kind:
    """Return what a pod has in common with others that nodes answer alike."""
    return Kind(tuple(_without_name(container) for container in demand.containers), demand.selection, demand.choice)


Likeness = tuple[tuple[str, str, Kind], ...]
"""What pods have in common for which there is room at the same time: vendor, namespace (quotas) and kind, each."""


def likeness_of(demands: Demands) -> Likeness:
    """Return what a pod has in common with others for which there is room whenever there is for it."""
    return tuple((word, demand.namespace, kind_of(demand)) for word, demand in demands.items())


def _without_name(container: ContainerDemand) -> tuple[Phase, Request | None]:
    return container.phase, container.request


@dataclass(slots=True)
class Trials:
    """The answers of nodes by position, None for those that take such a pod."""

    answers: dict[int, Refusal | None] = field(default_factory=dict)
    _refusals: dict[tuple[tuple[tuple[Reason, int], ...], int], Refusal] = field(default_factory=dict)
    _mark: int = -1

    def note(self, position: int, refusal: Refusal | None) -> Refusal | None:
        """Remember and return an answer; refusals that say the same are one object."""
        if refusal is not None:
            refusal = self._refusals.setdefault((tuple(refusal.counts.items()), refusal.total), refusal)
        self.answers[position] = refusal
        return refusal

    @property
    def refusing(self) -> list[int]:
        """Positions of the nodes that do not take such a pod."""
        return [position for position, answer in self.answers.items() if answer is not None]

    def refresh(self, table: CardTable) -> None:
        """Forget the answers of nodes that changed."""
        changed = table.journal.since(self._mark) if self._mark >= 0 else None
        if changed is None:
            self.answers.clear()
            self._refusals.clear()
        else:
            for position in changed:
                self.answers.pop(position, None)
        self._mark = table.journal.mark
