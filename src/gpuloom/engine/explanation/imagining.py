"""One node as it might be: a cluster of its own, to try out what nobody is to notice."""

from collections.abc import Container
from dataclasses import dataclass

from gpuloom.engine.cluster import Cluster
from gpuloom.engine.decider import Decider
from gpuloom.engine.decision import Decision
from gpuloom.engine.demand import Demand
from gpuloom.engine.ledger import Reservation
from gpuloom.engine.table import NodeCards
from gpuloom.model.want import Headroom


@dataclass(frozen=True, slots=True)
class ImaginedNode:
    """A node of which pods may come and go without consequences.

    headroom  what the namespace's quota would leave
    """

    name: str
    decider: Decider
    headroom: Headroom

    @property
    def cluster(self) -> Cluster:
        """The cluster that this node is alone in."""
        return self.decider.cluster

    def decide(self, demand: Demand, headroom: Headroom | None = None) -> Decision:
        """Ask for room."""
        # A memory of verdicts would be wrong here: columns are changed by hand.
        self.decider.memory.forget_all()
        candidates = self.decider.look_up((self.name,))
        return self.decider.decide(demand, candidates, explain=True, headroom=headroom or self.headroom)

    def fits(self, demand: Demand, headroom: Headroom | None = None) -> bool:
        """Tell whether there would be room."""
        return self.decide(demand, headroom).node is not None

    def leave(self, reservation: Reservation) -> None:
        """Let a pod go."""
        self.cluster.forget(reservation.uid)

    def come(self, reservation: Reservation) -> None:
        """Let a pod come, or come back."""
        self.cluster.assume(reservation)


def imagine(decider: Decider, node: str, headroom: Headroom, *, without: Container[str] = ()) -> ImaginedNode:
    """Copy a node with what is on it, except the pods with these UIDs."""
    cluster = Cluster(decider.profile)
    cluster.register(node, decider.cluster.table.registered(node) or NodeCards(()))
    if closed := decider.cluster.closed_on(node):
        cluster.table.write_closed(node, closed)
    for reservation in decider.cluster.ledger.on_node(node):
        if reservation.uid not in without:
            cluster.assume(reservation)
    return ImaginedNode(node, Decider(cluster, decider.profile, decider.options, decider.rules), headroom)
