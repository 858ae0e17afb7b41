"""What the cluster has to offer now, for warnings: the largest card of each vendor, and what nodes say they have."""

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
        table = self._state.cluster[word].table
        cards = [table.cards.rows(table.rows_of(position)) for position in table.positions.values()]
        return Offer(
            memory_mib=max((int(one.total_memory_mib.max(initial=0)) for one in cards), default=0),
            cores=max((int(one.total_cores.max(initial=0)) for one in cards), default=0),
            cards_of_a_node=max(map(len, cards), default=0),
        )
