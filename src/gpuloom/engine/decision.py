"""The decision for one pod: a query over the card table (scheduler 4.2 to 4.4).

The rules are asked once for all cards of the cluster. That one column answers which nodes can fit and why the others
do not; cards are chosen only on nodes that are left, best node first. What is not needed to answer, such as the fate of
all other candidates of a pod with several containers, is found out afterwards, from the table as it was.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuloom.engine.candidates import Candidates, look_up
from gpuloom.engine.cluster import Cluster
from gpuloom.engine.demand import ContainerDemand, Demand
from gpuloom.engine.need import make_want
from gpuloom.engine.options import Options
from gpuloom.engine.placement import PHASES_IN_ORDER_OF_PLACING, Container, Placement, Placer
from gpuloom.engine.ranking import Ranking
from gpuloom.engine.rules import RuleOrder
from gpuloom.engine.table import CardTable, NodeCards
from gpuloom.engine.verdicts import Shape, VerdictMemory, Verdicts
from gpuloom.model.cards import UNDIVIDED, Flags, Ints
from gpuloom.model.mig import MigAllocation
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.request import Request
from gpuloom.model.share import ContainerShares
from gpuloom.model.want import Headroom
from gpuloom.vendors.profile import Profile

UNBOUNDED = Headroom()


@dataclass(slots=True)
class Decision:
    """What was decided for one pod.

    node        the chosen node, None when none fits
    shares      one entry per container, init containers first; empty without a node
    instances   parts of divided cards that are written separately
    candidates  how many nodes there were to choose from
    fitting     the nodes that fit, with their scores
    refusals    the nodes that do not, and why; complete only if asked for or if none fits
    rest        what is still open, None when all is known; see :meth:`complete`
    """

    node: str | None
    shares: tuple[ContainerShares, ...]
    instances: tuple[MigAllocation, ...]
    candidates: int
    fitting: Ranking
    refusals: dict[str, Refusal]
    rest: Iterator[None] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether ``fitting`` tells of all candidates."""
        return self.rest is None

    def complete(self) -> Iterator[None]:
        """Find out what is still open, a node between two steps; changes of the table meanwhile do not matter."""
        if self.rest is not None:
            yield from self.rest
            self.rest = None


@dataclass(slots=True)
class Decider:
    """Decides over one cluster, for one vendor's cards, and remembers verdicts between decisions."""

    cluster: Cluster
    profile: Profile
    options: Options
    rules: RuleOrder
    memory: VerdictMemory = field(init=False)

    def __post_init__(self) -> None:
        self.memory = VerdictMemory(self.rules)

    def look_up(self, names: Sequence[str]) -> Candidates:
        """Find nodes by their names; the order breaks ties."""
        return look_up(self.cluster.table, names)

    def decide(self, demand: Demand, candidates: Candidates, *, explain: bool = False) -> Decision:
        """Choose node and cards for a pod; with ``explain`` every refusal is told even if a node fits.

        Raises ValueError when the demand asks for no card: such a pod needs no decision.
        """
        headroom = self._headroom(demand)
        return _Query(self, self.cluster.table, self.memory, demand, headroom).answer(candidates, explain=explain)

    def simulate(self, demand: Demand, nodes: Mapping[str, NodeCards]) -> Decision:
        """Decide as if these were the nodes and nothing on them were used; quotas count as they are (4.8)."""
        imagined = Cluster(self.profile.geometries)
        for name, registered in nodes.items():
            imagined.register(name, registered)
        query = _Query(self, imagined.table, VerdictMemory(self.rules), demand, self._headroom(demand))
        return query.answer(look_up(imagined.table, tuple(nodes)), explain=True)

    def _headroom(self, demand: Demand) -> Headroom:
        if not self.cluster.quotas.limits(demand.namespace):
            return UNBOUNDED
        used = self.cluster.ledger.namespace_usage(demand.namespace, self.profile.word)
        return self.cluster.quotas.headroom(demand.namespace, self.profile, used)


@dataclass(slots=True)
class _Query:
    """One pod's question to the table."""

    decider: Decider
    table: CardTable
    memory: VerdictMemory
    demand: Demand
    headroom: Headroom

    def answer(self, candidates: Candidates, *, explain: bool) -> Decision:
        request = self._placed_first()
        is_tight = self._is_tight(request)
        verdicts = self._recall(request, is_tight=is_tight)
        refused = self._refused_by_column(candidates.known, request, verdicts, is_tight=is_tight)
        possible = candidates.known[~refused]
        ranking = Ranking(self.table.names, possible, self.table.node_scores, self.demand.choice.node_policy)
        walked = self._must_walk(possible, request, is_tight=is_tight)
        decision = self._choose(ranking, len(candidates), walked=walked)
        if decision.node is None or explain:
            for _ in decision.complete():
                pass
            names = map(self.table.names.__getitem__, candidates.known[refused].tolist())
            decision.refusals.update(zip(names, verdicts.refuse(self.table, candidates.known[refused]), strict=True))
            decision.refusals.update(dict.fromkeys(candidates.unknown, refuse_node(Reason.NODE_UNREGISTERED)))
        return decision

    def _choose(self, ranking: Ranking, candidates: int, *, walked: bool) -> Decision:
        """Place the pod on the best node that takes it."""
        decision = Decision(None, (), (), candidates, ranking, {})
        if not walked:
            # One request that fits by the column fits for certain.
            if len(ranking):
                self._settle(decision, ranking.best(), self._place(self.table, ranking.best()))
            return decision
        order = iter(ranking.best_first())
        for position in order:
            placement = self._place(self.table, position)
            if isinstance(placement, Placement):
                self._settle(decision, position, placement)
                break
            self._strike(decision, position, placement)
        rest = list(order)
        decision.rest = self._place_rest(decision, self.table.snapshot(), rest) if rest else None
        return decision

    def _settle(self, decision: Decision, position: int, placement: Placement | Refusal) -> None:
        if isinstance(placement, Refusal):
            raise TypeError(f"node {self.table.names[position]} refuses what its cards allow: {placement.text}")
        decision.node = self.table.names[position]
        decision.shares, decision.instances = placement.shares, placement.instances

    def _strike(self, decision: Decision, position: int, refusal: Refusal) -> None:
        decision.refusals[self.table.names[position]] = refusal
        decision.fitting.strike(position)

    def _place_rest(self, decision: Decision, table: CardTable, positions: Sequence[int]) -> Iterator[None]:
        for position in positions:
            placement = self._place(table, position)
            if isinstance(placement, Refusal):
                self._strike(decision, position, placement)
            yield

    def _placed_first(self) -> Request:
        """The request that is placed before all others: for it the table as it stands is the whole truth."""
        for phase in PHASES_IN_ORDER_OF_PLACING:
            for container in self.demand.containers:
                if container.phase is phase and container.request is not None:
                    return container.request
        raise ValueError("the pod asks for no card")

    def _is_tight(self, request: Request) -> bool:
        """Whether the namespace's quota may stand in the way of the request that is placed first."""
        if self.headroom == UNBOUNDED:
            return False
        largest_mib = request.memory_mib or int(self.table.cards.total_memory_mib.max(initial=0))
        return (
            request.cards * largest_mib > self.headroom.memory_mib
            or request.cards * request.cores > self.headroom.cores
        )

    def _recall(self, request: Request, *, is_tight: bool) -> Verdicts:
        headroom = self._headroom_of_a_card(request) if is_tight else UNBOUNDED
        shape = Shape(request, self.demand.selection, self.demand.choice.card_policy.mutex, headroom)
        if not is_tight:
            return self.memory.recall(self.table, shape)
        # What a quota leaves changes with every pod of its namespace: not worth remembering.
        verdicts = Verdicts(shape, self.decider.rules)
        verdicts.refresh(self.table)
        return verdicts

    def _headroom_of_a_card(self, request: Request) -> Headroom:
        """What the quota leaves for one card, nothing being collected yet; with topology all cards count at once."""
        if not self.demand.choice.card_policy.topology:
            return self.headroom
        return Headroom(self.headroom.memory_mib // request.cards, self.headroom.cores // request.cards)

    def _refused_by_column(self, known: Ints, request: Request, verdicts: Verdicts, *, is_tight: bool) -> Flags:
        """Nodes that the column alone refuses, by position among the candidates."""
        fitting = verdicts.fitting[known]
        refused = fitting == 0
        if request.cards > 1 and not (self.demand.choice.numa_bind or is_tight):
            refused |= (fitting < request.cards) & ~self._may_serve_twice(known)
        return refused

    def _may_serve_twice(self, known: Ints) -> Flags:
        """Nodes with cards that can be taken several times, an instance each."""
        if not self.demand.selection.takes_instances or not self.table.partitions:
            return np.zeros(len(known), bool)
        divided = np.zeros(len(self.table.names), bool)
        divided[self.table.cards.node[self.table.cards.division != UNDIVIDED]] = True
        return divided[known]

    def _must_walk(self, possible: Ints, request: Request, *, is_tight: bool) -> bool:
        """Whether only placing the pod on a node tells whether it fits there."""
        if sum(container.request is not None for container in self.demand.containers) > 1:
            return True
        if request.cards == 1:
            return False
        return self.demand.choice.numa_bind or is_tight or bool(self._may_serve_twice(possible).any())

    def _place(self, table: CardTable, position: int) -> Placement | Refusal:
        """Place the pod on one node."""
        demand, rows = self.demand, table.rows_of(position)
        placer = Placer(
            vendor=self.decider.profile.word,
            rules=self.decider.rules,
            choice=demand.choice,
            takes_instances=demand.selection.takes_instances,
            headroom=self.headroom,
        )
        containers = [self._ask(table, container, rows) for container in demand.containers]
        return placer.place(table.bench(position), containers)

    def _ask(self, table: CardTable, container: ContainerDemand, rows: slice) -> Container:
        if container.request is None:
            return Container(container.phase, None)
        want = make_want(
            table,
            rows,
            container.request,
            self.demand.selection,
            mutex=self.demand.choice.card_policy.mutex,
            headroom=UNBOUNDED,
            score_slots=self.decider.options.device_score_slots,
        )
        return Container(container.phase, want)
