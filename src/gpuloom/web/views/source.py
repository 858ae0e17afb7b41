"""Where views read: the parts of a scheduler, live or replayed, and the person who looks."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.explanation.values import PodName
from gpuloom.engine.planning.preemption.lowest_priorities import LowestPriorities
from gpuloom.engine.state.ledger import Reservation
from gpuloom.scheduler.nodes.missingcards import explain_unschedulable
from gpuloom.scheduler.parts import Parts
from gpuloom.scheduler.state import SchedulerState
from gpuloom.web.views.values import DecisionView


@dataclass(frozen=True, slots=True)
class Viewer:
    """What somebody may see: nodes, the pods of all namespaces, or of some."""

    nodes: bool = True
    all_pods: bool = True
    namespaces: frozenset[str] = frozenset()

    def sees(self, namespace: str) -> bool:
        """Tell whether the pods of a namespace may be named."""
        return self.all_pods or namespace in self.namespaces

    def name(self, namespace: str, name: str) -> PodName:
        """Name a pod, or only say that there is one."""
        return PodName(namespace=namespace, name=name) if self.sees(namespace) else PodName()


EVERYTHING = Viewer()


@dataclass(frozen=True, slots=True)
class Source:
    """A scheduler to look at.

    pod_scheduler  decides over the same cluster with caches of its own: people's questions must not push out others'
    told  views of decisions that will not change any more, by number
    priorities  how important those are who hold cards, for plans of preemption
    """

    parts: Parts
    pod_scheduler: PodScheduler = field(init=False)
    told: dict[int, DecisionView] = field(default_factory=dict)
    priorities: LowestPriorities = field(default_factory=LowestPriorities)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pod_scheduler", PodScheduler(self.state.cluster, self.state.settings.options))

    @property
    def state(self) -> SchedulerState:
        """What the scheduler knows."""
        return self.parts.state

    def node_names(self) -> list[str]:
        """Return all nodes by name: those that the API server shows and those that have cards."""
        return sorted({*self.state.nodes, *self.state.cluster.nodes})

    def open_node_names(self) -> list[str]:
        """Return the nodes that take new pods, by name."""
        nodes = self.state.nodes
        return [name for name in self.node_names() if name not in nodes or not explain_unschedulable(nodes[name])]

    def holders(self, node: str) -> Iterator[Reservation]:
        """Give the reservations on a node."""
        return iter(self.state.cluster.ledger.on_node(node))

    def namespaces(self) -> set[str]:
        """Return the namespaces of pods that ask for cards or hold some, and of quotas."""
        held = {reservation.namespace for reservation in self.state.cluster.ledger}
        return held | {pod.namespace for pod in self.state.pods.values()} | self.parts.quotas.namespaces
