"""Cards of which memory and cores are used alike: what is free of one is a single number, its state."""

import numpy as np

from gpuloom.engine.scoring.fragmentation.measured_cards import CardValues
from gpuloom.engine.scoring.fragmentation.measured_cost import MeasuredCosts, NodesAndPod
from gpuloom.engine.scoring.fragmentation.one_node_cost import NOWHERE
from gpuloom.engine.scoring.fragmentation.useless_share import UselessShare
from gpuloom.engine.scoring.fragmentation.workload import WHOLE
from gpuloom.model.cards import Flags, Points

_RESTS = np.arange(WHOLE + 1)


class RestCards:
    """The states 0 to 1000, thousandths that are free of a card; columns as in :class:`MeasuredCards`."""

    def __init__(self, useless: UselessShare, waste_of_rests: Points) -> None:
        self._useless = useless
        self._waste = waste_of_rests
        self.whole: Flags = _RESTS == WHOLE
        self.supplied = useless.supplied_by_rest

    def take(self, share_milli: int) -> CardValues:
        """Return by how much the values of cards change once a share is taken; without meaning where it has no room."""
        left = np.maximum(_RESTS - share_milli, 0)
        return CardValues(left - _RESTS, self._waste[left] - self._waste, self._useless.changes(share_milli))


class RestCosts(MeasuredCosts):
    """The same costs, of which the last digit is as it was when results were published: it may decide between cards."""

    def _cost_each(self, on: NodesAndPod) -> Points:
        weights, share = self._weights, -on.changes.free.item(WHOLE)
        demand = on.cards * share
        cost = self.strand(on.free - demand, on.left_cpu) - self.strand(on.free, on.cpu)
        cost *= weights.stranded
        cost += weights.useless * on.used
        cost -= weights.useless * demand
        supply = self._useless.supply_after_each(on.supply, on.states, share)
        used = self._useless.used(supply, self._useless.chances(on.model, on.left_cpu)[:, None])
        each = cost[:, None] - weights.useless * used
        each += on.changes.waste[on.states]
        each[~on.fits] = NOWHERE
        return each
