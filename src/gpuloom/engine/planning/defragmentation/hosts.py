"""Whether nodes take pods, cards apart, while pods move between them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuloom.engine.hostfit.demand import HostDemand
from gpuloom.engine.hostfit.filters import refuse_host
from gpuloom.engine.hostfit.usage import Footprint, HostUsage
from gpuloom.wire.objects import Node


@dataclass(slots=True)
class HostRoom:
    """The nodes as kube-scheduler's own filters see them.

    nodes      by name, in the order in which they are offered
    usage      what bound pods request; None where nobody knows, then nodes take all pods
    demand_of  what a pod, by its UID, asks of its node; None where nobody knows
    """

    nodes: Mapping[str, Node]
    usage: HostUsage | None
    demand_of: Callable[[str], HostDemand | None]
    _taking: dict[HostDemand, tuple[str, ...]] = field(default_factory=dict)

    def names_for(self, uid: str) -> Sequence[str]:
        """Return the nodes that take a pod as they are now."""
        demand = self.demand_of(uid)
        if self.usage is None or demand is None:
            return tuple(self.nodes)
        if demand not in self._taking:
            usage = self.usage
            self._taking[demand] = tuple(
                name for name, node in self.nodes.items() if not refuse_host(node, usage.on(name), demand)
            )
        return self._taking[demand]

    def takes(self, node: str, uid: str, *, leaving: Iterable[str] = (), coming: Iterable[str] = ()) -> bool:
        """Tell whether a node takes a pod after some pods have left it and others have come."""
        demand = self.demand_of(uid)
        if self.usage is None or demand is None or node not in self.nodes:
            return True
        usage = self.usage.on(node).copy()
        for other in leaving:
            usage.drop(other)
        for other in coming:
            asked = self.demand_of(other)
            if asked is not None:
                usage.put(other, Footprint(asked.amounts, asked.ports))
        return not refuse_host(self.nodes[node], usage, demand)
