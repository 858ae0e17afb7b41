"""The decision for one pod: a query over the card table (scheduler 4.2 to 4.4).

The rules are asked once for all cards of the cluster. That one column answers which nodes can fit and why the others
do not; cards are chosen only on nodes that are left, best node first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuloom.engine.cluster import Cluster
from gpuloom.engine.demand import ContainerDemand, Demand
from gpuloom.engine.need import make_want
from gpuloom.engine.options import Options
from gpuloom.engine.placement import PHASES_IN_ORDER_OF_PLACING, Container, Placement, Placer
from gpuloom.engine.rules import RuleOrder
from gpuloom.engine.scores import order_nodes
from gpuloom.engine.table import CardTable
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


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for one pod.

    node       the chosen node, None when none fits
    shares     one entry per container, init containers first; empty without a node
    instances  parts of divided cards that are written separately
    scores     fitting nodes and their scores, worst first, the chosen one last
    refusals   every other candidate and why it cannot serve
    """

    node: str | None
    shares: tuple[ContainerShares, ...]
    instances: tuple[MigAllocation, ...]
    scores: tuple[tuple[str, float], ...]
    refusals: Mapping[str, Refusal]


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

    def decide(self, demand: Demand, candidates: Sequence[str]) -> Decision:
        """Choose node and cards for a pod among the candidate nodes; names that come earlier win ties.

        Raises ValueError when the demand asks for no card: such a pod needs no decision.
        """
        used = self.cluster.ledger.namespace_usage(demand.namespace, self.profile.word)
        headroom = self.cluster.quotas.headroom(demand.namespace, self.profile, used)
        return _Query(self, demand, headroom).answer(candidates)


@dataclass(slots=True)
class _Query:
    """One pod's question to the table."""

    decider: Decider
    demand: Demand
    headroom: Headroom

    @property
    def _table(self) -> CardTable:
        return self.decider.cluster.table

    def answer(self, candidates: Sequence[str]) -> Decision:
        known, refusals = self._look_up(candidates)
        request = self._placed_first()
        is_tight = self._is_tight(request)
        possible = self._sift(known, request, self._recall(request, is_tight=is_tight), refusals, is_tight=is_tight)
        scores, names = self._table.node_scores, self._table.names
        ranked = order_nodes(possible, scores, self.demand.choice.node_policy).tolist()
        certain = not self._must_walk(possible, request, is_tight=is_tight)
        placements = self._place(ranked[-1:] if certain else ranked, refusals)
        fitting = tuple((names[at], float(scores[at])) for at in ranked if names[at] not in refusals)
        if not fitting:
            return Decision(None, (), (), (), refusals)
        chosen = placements[fitting[-1][0]]
        return Decision(fitting[-1][0], chosen.shares, chosen.instances, fitting, refusals)

    def _look_up(self, candidates: Sequence[str]) -> tuple[Ints, dict[str, Refusal]]:
        """Positions of the candidates, and the refusals of those that have no cards here."""
        positions = {name: self._table.position(name) for name in candidates}
        refusals = {name: refuse_node(Reason.NODE_UNREGISTERED) for name, at in positions.items() if at is None}
        return np.array([at for at in positions.values() if at is not None], np.int64), refusals

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
        largest_mib = request.memory_mib or int(self._table.cards.total_memory_mib.max(initial=0))
        return (
            request.cards * largest_mib > self.headroom.memory_mib
            or request.cards * request.cores > self.headroom.cores
        )

    def _recall(self, request: Request, *, is_tight: bool) -> Verdicts:
        headroom = self.headroom if is_tight else UNBOUNDED
        shape = Shape(request, self.demand.selection, self.demand.choice.card_policy.mutex, headroom)
        if not is_tight:
            return self.decider.memory.recall(self._table, shape)
        # What a quota leaves changes with every pod of its namespace: not worth remembering.
        verdicts = Verdicts(shape, self.decider.rules)
        verdicts.refresh(self._table)
        return verdicts

    def _sift(
        self, known: Ints, request: Request, verdicts: Verdicts, refusals: dict[str, Refusal], *, is_tight: bool
    ) -> Ints:
        """The nodes that may fit; those that the column alone refuses go to the refusals."""
        fitting = verdicts.fitting[known]
        refused = fitting == 0
        if not (self.demand.choice.numa_bind or is_tight):
            refused |= (fitting < request.cards) & ~self._may_serve_twice(known)
        for position in known[refused].tolist():
            refusals[self._table.names[position]] = verdicts.refuse(self._table, position)
        return known[~refused]

    def _may_serve_twice(self, known: Ints) -> Flags:
        """Nodes with cards that can be taken several times, an instance each."""
        if not self.demand.selection.takes_instances or not self._table.partitions:
            return np.zeros(len(known), bool)
        divided = np.zeros(len(self._table.names), bool)
        divided[self._table.cards.node[self._table.cards.division != UNDIVIDED]] = True
        return divided[known]

    def _must_walk(self, possible: Ints, request: Request, *, is_tight: bool) -> bool:
        """Whether only placing the pod on a node tells whether it fits there."""
        if sum(container.request is not None for container in self.demand.containers) > 1:
            return True
        walks = self.demand.choice.numa_bind or is_tight or bool(self._may_serve_twice(possible).any())
        return request.cards > 1 and walks

    def _place(self, positions: Sequence[int], refusals: dict[str, Refusal]) -> dict[str, Placement]:
        """Place the pod on some nodes; those on which it does not fit go to the refusals."""
        demand = self.demand
        placer = Placer(
            vendor=self.decider.profile.word,
            rules=self.decider.rules,
            choice=demand.choice,
            takes_instances=demand.selection.takes_instances,
            headroom=self.headroom,
        )
        placements: dict[str, Placement] = {}
        for position in positions:
            rows, name = self._table.rows_of(position), self._table.names[position]
            containers = [self._ask(container, rows) for container in demand.containers]
            placement = placer.place(self._table.bench(name), containers)
            if isinstance(placement, Refusal):
                refusals[name] = placement
            else:
                placements[name] = placement
        return placements

    def _ask(self, container: ContainerDemand, rows: slice) -> Container:
        if container.request is None:
            return Container(container.phase, None)
        want = make_want(
            self._table,
            rows,
            container.request,
            self.demand.selection,
            mutex=self.demand.choice.card_policy.mutex,
            headroom=UNBOUNDED,
            score_slots=self.decider.options.device_score_slots,
        )
        return Container(container.phase, want)
