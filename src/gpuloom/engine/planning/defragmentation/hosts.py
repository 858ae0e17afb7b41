"""Whether nodes take pods, cards apart, while pods move between them."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuloom.engine.hostfit.demand import HostDemand
from gpuloom.engine.hostfit.filters import refuse_host
from gpuloom.engine.hostfit.usage import Footprint, HostUsage
from gpuloom.wire.objects import Node

_NODES_A_STEP = 50


@dataclass(slots=True)
class HostFilters:
    """What kube-scheduler's own filters say of nodes while pods move between them.

    nodes      by name, in the order in which they are offered
    usage      what bound pods request; None where nobody knows, then nodes take all pods
    demand_of  what a pod, by its UID, asks of its node; None where nobody knows
    """

    nodes: Mapping[str, Node]
    usage: HostUsage | None
    demand_of: Callable[[str], HostDemand | None]
    _taking: dict[HostDemand, tuple[str, ...]] = field(default_factory=dict)

    def names_for(self, uid: str) -> Generator[None, None, Sequence[str]]:
        """Return the nodes that take a pod as they are now, found in steps."""
        demand = self.demand_of(uid)
        if self.usage is None or demand is None:
            return tuple(self.nodes)
        if demand not in self._taking:
            self._taking[demand] = tuple((yield from self._ask_all(self.usage, demand)))
        return self._taking[demand]

    def _ask_all(self, usage: HostUsage, demand: HostDemand) -> Generator[None, None, list[str]]:
        taking: list[str] = []
        for number, (name, node) in enumerate(self.nodes.items()):
            if number % _NODES_A_STEP == 0:
                yield
            if not refuse_host(node, usage.on(name), demand):
                taking.append(name)
        return taking

    def takes(self, node: str, uid: str, *, without: Iterable[str] = (), coming: Iterable[str] = ()) -> bool:
        """Tell whether a node takes a pod after some pods have left it and others have come."""
        demand = self.demand_of(uid)
        if self.usage is None or demand is None or node not in self.nodes:
            return True
        usage = self.usage.on(node).copy()
        for other in without:
            usage.drop(other)
        for other in coming:
            asked = self.demand_of(other)
            if asked is not None:
                usage.put(other, Footprint(asked.amounts, asked.ports))
        return not refuse_host(self.nodes[node], usage, demand)
