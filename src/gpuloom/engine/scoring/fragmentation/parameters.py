"""How much each part of the cost counts."""

from dataclasses import dataclass

import numpy as np

from gpuloom.model.cards import Ints, Points

_AMPLE_CPU = 52_000
"""Milli-cores for each card that only few nodes have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Weights of the cost of a placement, which is in thousandths of cards.

    useless         of what a typical pod cannot use
    stranded        of free cards that the free CPU cannot feed
    stranded_later  of the same once pods without cards will have taken their CPU
    scarcity        of a model that pods without a choice want
    spare_cpu       of nodes with much CPU for each card
    large_pods      of breaking a node that could take a pod of many whole cards
    """

    useless: float = 0.1
    stranded: float
    stranded_later: float
    scarcity: float = 1.0
    spare_cpu: float
    large_pods: float

    def price_spare_cpu(self, capacity_cpu: Ints, cards: Ints) -> Points:
        """Return what nodes charge for each thousandth of a card because they have much CPU for each card."""
        per_card = capacity_cpu / np.maximum(cards, 1)
        return self.spare_cpu * np.minimum(1.0, per_card / _AMPLE_CPU) ** 2


ALL_PODS = Parameters(stranded=0.5, stranded_later=0.0, spare_cpu=0.0, large_pods=0.01)
"""Where the policy places all pods, those without cards too."""
PODS_WITH_CARDS = Parameters(stranded=0.3, stranded_later=0.2, spare_cpu=0.05, large_pods=0.12)
"""Where somebody else places the pods without cards, as an extender of kube-scheduler has it."""
