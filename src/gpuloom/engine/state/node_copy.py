"""The cards of one node, to place a pod on."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuloom.engine.state.partitions import Partition
from gpuloom.model.card import Card
from gpuloom.model.cards import Cards
from gpuloom.model.nodecards import Facts
from gpuloom.wire.pairscores import PairScores


@dataclass(slots=True)
class NodeCopy:
    """The cards of one node, to place a pod on; usage here is the pod's own business."""

    cards: Cards
    uuids: Sequence[str]
    partitions: dict[int, Partition]
    pair_scores: PairScores
    facts: Facts = field(default_factory=dict)
    registered: Sequence[Card] = ()

    def model_of(self, row: int) -> str:
        """Return the model of a card."""
        return self.registered[row].model

    def frozen(self) -> "NodeCopy":
        """Return a copy that later changes of the table do not show in."""
        every = np.arange(len(self.cards))
        return NodeCopy(
            self.cards.rows(every), self.uuids, self.partitions, self.pair_scores, self.facts, self.registered
        )

    def copy(self) -> "NodeCopy":
        """Return a copy whose usage may change without touching this one."""
        return NodeCopy(
            self.cards.scratch(), self.uuids, dict(self.partitions), self.pair_scores, self.facts, self.registered
        )
