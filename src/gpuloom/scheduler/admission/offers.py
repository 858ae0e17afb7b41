"""What the cluster has to offer now, for warnings: the largest card of each vendor, and what nodes say they have."""

import numpy as np

from gpuloom.engine.state.card_table import NO_NODE
from gpuloom.scheduler.admission.warn import Cluster, Offer
from gpuloom.scheduler.state import SchedulerState


class ClusterOffers:
    """Answers from a scheduler's state; what follows from the cards is worked out again when nodes registered some."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._offers: dict[str, Offer] = {}
        self._registrations = -1

    @property
    def cluster(self) -> Cluster:
        """What warnings ask."""
        return Cluster(self._is_offered, self._offer)

    def _is_offered(self, name: str) -> bool:
        return any(name in (node.status.allocatable or {}) for node in self._state.nodes.values())

    def _offer(self, word: str) -> Offer:
        if self._registrations != self._state.cluster.registrations:
            self._registrations = self._state.cluster.registrations
            self._offers.clear()
        if word not in self._offers:
            self._offers[word] = self._find_offer(word)
        return self._offers[word]

    def _find_offer(self, word: str) -> Offer:
        cards = self._state.cluster[word].table.cards
        known = cards.node != NO_NODE
        return Offer(
            memory_mib=int(cards.total_memory_mib[known].max(initial=0)),
            cores=int(cards.total_cores[known].max(initial=0)),
            cards_of_a_node=int(np.bincount(cards.node[known]).max(initial=0)),
        )
