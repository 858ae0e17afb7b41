"""Where views read: the parts of a scheduler, live or replayed, and the person who looks."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuloom.engine.decision.nominated import NominationScheduler
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.explanation.values import PodName
from gpuloom.engine.planning.preemption.lowest_priorities import LowestPriorities
from gpuloom.engine.state.card_table import CardTable
from gpuloom.engine.state.ledger import Reservation
from gpuloom.model.card import Card
from gpuloom.model.uuids import card_id
from gpuloom.scheduler.nodes.missingcards import explain_unschedulable
from gpuloom.scheduler.parts import Parts
from gpuloom.scheduler.pods.pending import tell_hold
from gpuloom.scheduler.state import SchedulerState
from gpuloom.vendors.profile import Profile
from gpuloom.web.monitors.book import UseBook
from gpuloom.web.stranded import StrandedBook
from gpuloom.web.views.values import DecisionView
from gpuloom.wire.objects import Pod


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
    decider  the same, and leaves those room that are nominated
    told  views of decisions that will not change any more, by number
    priorities  how important those are who hold cards, for plans of preemption
    book  what of cards is in use, as far as monitors are asked
    stranded  what of cards is free and of no use to pods to come
    """

    parts: Parts
    pod_scheduler: PodScheduler = field(init=False)
    decider: NominationScheduler = field(init=False)
    told: dict[int, DecisionView] = field(default_factory=dict)
    priorities: LowestPriorities = field(default_factory=LowestPriorities)
    book: UseBook = field(default_factory=UseBook)
    stranded: StrandedBook = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pod_scheduler", PodScheduler(self.state.cluster, self.state.settings.options))
        decider = NominationScheduler(self.pod_scheduler, self.state.nominations, self.state.shown.terminating.keys())
        object.__setattr__(self, "decider", decider)
        object.__setattr__(self, "stranded", StrandedBook(lambda: self.parts.clocks.now().timestamp()))

    @property
    def state(self) -> SchedulerState:
        """What the scheduler knows."""
        return self.parts.state

    def tell_hold(self, pod: Pod) -> str:
        """Say who keeps a waiting pod from being tried at all, whatever is free; nothing where nobody does."""
        return tell_hold(self.state, pod, self.parts.clocks.monotonic())

    def node_names(self) -> list[str]:
        """Return all nodes by name: those that the API server shows and those that have cards."""
        return sorted({*self.state.shown.nodes, *self.state.cluster.nodes})

    def has_node(self, name: str) -> bool:
        """Whether there is such a node, known to the API server or with cards."""
        return name in self.state.shown.nodes or self.state.cluster.has(name)

    def open_node_names(self) -> list[str]:
        """Return the nodes that take new pods, by name."""
        nodes = self.state.shown.nodes
        return [name for name in self.node_names() if name not in nodes or not explain_unschedulable(nodes[name])]

    def registered(self, node: str) -> list[Card]:
        """Return a node's cards, of whatever vendor."""
        tables = (table.registered(node) for table in self.state.cluster.tables)
        return [card for found in tables if found is not None for card in found.cards]

    def tables(self) -> Iterator[tuple[Profile, CardTable]]:
        """Give each vendor with the table of its cards."""
        cluster = self.state.cluster
        return ((profile, cluster[profile.word].table) for profile in cluster.catalog)

    def cards_of(self, held: Reservation) -> set[str]:
        """Return the ids of the cards that a pod holds something of."""
        return {card_id(share.uuid) for share, is_held in held.each_share() if is_held}

    def holders(self, node: str) -> Iterator[Reservation]:
        """Give the reservations on a node."""
        return iter(self.state.cluster.ledger.on_node(node))

    def namespaces(self) -> set[str]:
        """Return the namespaces of pods that ask for cards or hold some, and of quotas."""
        held = {reservation.namespace for reservation in self.state.cluster.ledger}
        return held | {pod.namespace for pod in self.state.shown.pods.values()} | self.parts.quotas.namespaces
