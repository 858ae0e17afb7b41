"""One attempt to schedule a pod on the cards of one vendor (scheduler 4.2 to 4.4).

Filter: the rules are asked once for all cards of the cluster. That one column tells which nodes can serve and why the
others cannot. Score: nodes that are left are ranked. Place: cards are chosen on the best node; where single cards do
not decide, on one node after another until one takes the pod. What the answer does not need, such as the fate of all
other candidates of a pod with several containers, is found out afterwards, from the table as it was.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from gpuloom.engine.decision.assessment import Assessment
from gpuloom.engine.decision.decision import Decision, UnsettledError
from gpuloom.engine.filtering.candidates import Candidates, find_best, look_up_among
from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.filtering.equivalence_class import EquivalenceClass
from gpuloom.engine.filtering.filter_cache import FilterCache
from gpuloom.engine.filtering.filter_results import FilterResults
from gpuloom.engine.filtering.name_index import NameIndex
from gpuloom.engine.filtering.quota_bounds import may_exceed
from gpuloom.engine.filtering.refusal_cache import RefusalCache
from gpuloom.engine.placement.batch_placer import BATCH_SIZE, BatchPlacer
from gpuloom.engine.placement.container_placer import Placement, Unplaced
from gpuloom.engine.placement.node_placer import NodePlacer
from gpuloom.engine.placement.placement_cache import (
    REFUSES,
    TAKES,
    UNTRIED,
    PlacementCache,
    PlacementCaches,
    placement_class_of,
)
from gpuloom.engine.request.demand import Demand
from gpuloom.engine.scoring.policy import NodePolicy
from gpuloom.engine.scoring.ranking import UNFIT, Ranking
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.engine.state.snapshot import Snapshot
from gpuloom.model.cards import UNDIVIDED, Flags, Ints, Scores
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.request import Request
from gpuloom.model.request_columns import UNBOUNDED, Headroom
from gpuloom.wire.nodenames import NodeNames


@dataclass(slots=True)
class SchedulingAttempt:
    """One attempt. Nothing is changed but what is remembered.

    index       of the table's names
    most_tries  on so many nodes the pod may be placed before others have their turn, None for any number
    placements  what nodes answered to pods of this class, once it is known
    """

    compiled: CompiledProfile
    table: CardTable
    filter_cache: FilterCache
    placement_caches: PlacementCaches
    refusal_cache: RefusalCache
    index: NameIndex
    demand: Demand
    headroom: Headroom
    most_tries: int | None = None
    placements: PlacementCache | None = None
    _refusals: dict[str, Refusal] = field(default_factory=dict)

    def answer(self, candidates: Candidates, *, explain: bool) -> Decision:
        """Choose among candidates; with ``explain``, or if none fits, every refusal is found out."""
        request, results, is_quota_tight, by_rank = self._filter()
        if by_rank:
            decision = self._decide_by_rank(candidates, results)
            if decision.node is None:
                decision.refusals = self._refuse_all(candidates, results)
                return decision
            refused = results.ranks[candidates.known] == UNFIT if explain else None
        else:
            refused = self._refused_by_rules(candidates.known, request, results, is_quota_tight=is_quota_tight)
            decision = self._decide_by_placing(candidates, refused, results)
        if refused is not None and (decision.node is None or explain):
            self._explain(decision, candidates, results, refused)
        return decision

    def has_capacity(self) -> bool:
        """Tell whether any node would do."""
        request, results, is_quota_tight, by_rank = self._filter()
        if by_rank:
            return bool((results.ranks[NO_NODE + 1 :] != UNFIT).any())
        known = self._all_nodes()
        refused = self._refused_by_rules(known, request, results, is_quota_tight=is_quota_tight)
        return self._decide_by_placing(Candidates(known, (), known), refused, results).node is not None

    def place_ahead(self) -> Iterator[None]:
        """Place the pod on all nodes step by step and remember the answers; see :meth:`VendorScheduler.place_ahead`."""
        request = self.demand.placed_first
        is_quota_tight = self._is_quota_tight(request)
        if self._is_decided_by_rank(request, is_quota_tight=is_quota_tight):
            if not is_quota_tight:
                yield from self.filter_cache.begin(self.table, self._equivalence_class(request, UNBOUNDED)) or ()
            return
        results = self._recall_results(request, is_quota_tight=is_quota_tight, ranks=False)
        known = self._all_nodes()
        refused = self._refused_by_rules(known, request, results, is_quota_tight=is_quota_tight)
        placements = self._recall_placements()
        for some in self._in_batches(known[~refused]):
            # Nodes may go while this goes on.
            left = placements.untried(some[self.table.ends[some] > self.table.starts[some]])
            if len(left):
                self._place_on(placements, left)
                yield

    def assess(self) -> Assessment:
        """Tell of all nodes whether the pod fits there, as far as this vendor's cards go.

        Raises UnsettledError when more than ``most_tries`` nodes have not answered.
        """
        request, results, is_quota_tight, by_rank = self._filter()
        if by_rank:
            takes = results.ranks != UNFIT
            takes[NO_NODE] = False
            return Assessment(self.table, results, takes, results.ranks, self.demand.first_turn)
        known = self._all_nodes()
        refused = self._refused_by_rules(known, request, results, is_quota_tight=is_quota_tight)
        placements = self._recall_placements()
        self._place_on_untried(placements, known[~refused])
        takes = np.zeros(len(self.table.names), bool)
        takes[known] = ~refused & (placements.answers[known] == TAKES)
        nodes = slice(len(self.table.names))
        ranks = results.rank_nodes(self.table, self._node_scores(placements), nodes)
        return Assessment(self.table, results, takes, ranks, self.demand.first_turn, placements)

    def _all_nodes(self) -> Ints:
        count = len(self.table.names)
        return np.flatnonzero(self.table.ends[:count] > self.table.starts[:count])

    def search(self, names: NodeNames) -> Decision | None:
        """Answer by looking for the best nodes among the names; None where the names must be read for the answer."""
        request, results, is_quota_tight, by_rank = self._filter()
        if not by_rank:
            return self._search_by_placing(names, request, results, is_quota_tight=is_quota_tight)
        best = find_best(names, self.table, results.ranks)
        if best is None:
            return None
        decision = Decision(None, (), (), partial(self._rank_among, names, results.ranks.copy()), {})
        self._settle(decision, best, self._placer.place_fitting(best, results))
        return decision

    def _search_by_placing(
        self, names: NodeNames, request: Request, results: FilterResults, *, is_quota_tight: bool
    ) -> Decision | None:
        """Look for the best nodes and place the pod on one after another, until one takes it."""
        known = self._all_nodes()
        refused = self._refused_by_rules(known, request, results, is_quota_tight=is_quota_tight)
        placements, ranks = self._recall_placements(), np.full(len(self.table.names), UNFIT)
        ranks[known] = self._rank_for_placing(known, refused, placements, results)
        decision = Decision(None, (), (), partial(self._rank_among, names, ranks), self._refusals)
        tries = 0
        while (best := find_best(names, self.table, ranks)) is not None:
            if not self._place_on_best(decision, best, placements, tries):
                ranks[best] = UNFIT
                tries += 1
                continue
            if self.compiled.score is None:
                decision.rest = partial(self._place_on_others, snapshot=self.table.snapshot(), placements=placements)
            return decision
        return None

    def _rank_among(self, names: NodeNames, ranks: Scores) -> Ranking:
        """Rank the nodes that a call names, by what all nodes were worth when it was answered."""
        candidates = look_up_among(self.table, self.index, names)
        # A node that came after the decision has no rank in it.
        known = candidates.known[candidates.known < len(ranks)]
        return Ranking(self.table.names, known, ranks[known], candidates=len(candidates), policy=self._node_policy)

    def _is_decided_by_rank(self, request: Request, *, is_quota_tight: bool) -> bool:
        """Whether single cards alone decide which nodes fit: one request, and nothing that depends on several cards."""
        containers = self.demand.containers
        if len(containers) > 1 and sum(container.request is not None for container in containers) > 1:
            return False
        if request.cards == 1 or self.compiled.is_hooked:
            return True
        return not (self.demand.policy.numa_bind or is_quota_tight or self.table.partitions)

    def _decide_by_rank(self, candidates: Candidates, results: FilterResults) -> Decision:
        ranks = results.ranks[candidates.where]
        # A slice is a view: the ranks as they are now must outlast later changes.
        ranking = self._rank(candidates, ranks.copy() if ranks.base is not None else ranks)
        best = ranking.best()
        decision = Decision(None, (), (), ranking, {})
        if best is not None:
            self._settle(decision, best, self._placer.place_fitting(best, results))
        return decision

    def _node_scores(self, placements: PlacementCache) -> Scores:
        """Return the scores of nodes that take the pod."""
        scores = self.table.node_scores[: len(self.table.names)]
        return scores + placements.extra if self.compiled.score is not None else scores

    def _decide_by_placing(self, candidates: Candidates, refused: Flags, results: FilterResults) -> Decision:
        """Place the pod on one node after another, best first, until one takes it; the others come later."""
        placements = self.placements = self._recall_placements()
        ranks = self._rank_for_placing(candidates.known, refused, placements, results)
        decision = Decision(None, (), (), self._rank(candidates, ranks), self._refusals)
        tries = 0
        while (best := decision.fitting.best()) is not None:
            if self._place_on_best(decision, best, placements, tries):
                if self.compiled.score is None:
                    decision.rest = partial(
                        self._place_on_others, snapshot=self.table.snapshot(), placements=placements
                    )
                break
            decision.fitting.exclude(best)
            tries += 1
        return decision

    def _rank_for_placing(
        self, known: Ints, refused: Flags, placements: PlacementCache, results: FilterResults
    ) -> Scores:
        """Return the ranks of nodes that may take the pod; with scores of the vendor's, of those that do."""
        if self.compiled.score is not None:
            # What the pod's cards are worth decides as well, so all nodes must have answered.
            self._place_on_untried(placements, known[~refused])
        scores = self._node_scores(placements)[known]
        refused = refused | (placements.answers[known] == REFUSES)
        return np.where(refused, UNFIT, results.rank_nodes(self.table, scores, known))

    def _place_on_best(self, decision: Decision, best: int, placements: PlacementCache, tries: int) -> bool:
        """Place the pod on a node if it takes it; note why not if it does not.

        Raises UnsettledError when the pod was placed on ``most_tries`` nodes in vain.
        """
        is_new = placements.answers[best] == UNTRIED
        if is_new and tries == self.most_tries:
            raise self._make_unsettled()
        answer = self._placer.place(self.table.copy_node(best), scores_extra=is_new)
        if is_new:
            placements.note(best, answer)
        if isinstance(answer, Placement):
            self._settle(decision, best, answer)
            return True
        decision.refusals[self.table.names[best]] = placements.unplaced[best].refusal
        return False

    def _place_on_untried(self, placements: PlacementCache, positions: Ints) -> None:
        """Place the pod on those nodes that have not answered.

        Raises UnsettledError when they are too many for one step.
        """
        untried = placements.untried(positions)
        if self.most_tries is not None and len(untried) > self.most_tries:
            raise self._make_unsettled()
        for some in self._in_batches(untried):
            self._place_on(placements, some)

    def _place_on(self, placements: PlacementCache, positions: Ints) -> None:
        """Place the pod on nodes and remember their answers."""
        if self._places_in_batches and len(positions) > 1:
            batch = BatchPlacer(self.compiled, self.demand, self.filter_cache.score_slots, self.table)
            placements.note_many(positions, batch.place_on(positions))
        else:
            for position in positions.tolist():
                placements.note(position, self._placer.place(self.table.copy_node(position)))

    def _in_batches(self, positions: Ints) -> Iterator[Ints]:
        """Divide nodes into batches after which others have their turn."""
        size = BATCH_SIZE if self._places_in_batches else 1
        return (positions[first : first + size] for first in range(0, len(positions), size))

    @property
    def _places_in_batches(self) -> bool:
        """Whether the pod can be placed on many nodes at once, because cards can be chosen one by one."""
        if self.table.partitions or self._may_exceed_quota():
            return False
        return self.compiled.is_hooked or not (
            self.demand.policy.numa_bind or self.compiled.links_cards(self.demand.policy)
        )

    def _refuse_all(self, candidates: Candidates, results: FilterResults) -> dict[str, Refusal]:
        """Return why no candidate fits: the refusals of the last time if nothing has changed since."""
        refusals = self.refusal_cache.recall(self.table, results, candidates)
        if refusals is None:
            refusals = self._refuse(candidates.known, candidates.unknown, results)
            self.refusal_cache.note(self.table, results, candidates, refusals)
        return refusals

    def _refuse(self, positions: Ints, unknown: Iterable[str], results: FilterResults) -> dict[str, Refusal]:
        names = map(self.table.names.__getitem__, positions.tolist())
        refusals = dict(zip(names, results.refuse(self.table, positions), strict=True))
        refusals.update(dict.fromkeys(unknown, refuse_node(Reason.NODE_UNREGISTERED)))
        return refusals

    def _explain(self, decision: Decision, candidates: Candidates, results: FilterResults, refused: Flags) -> None:
        """Tell of every candidate that does not fit why."""
        for _ in decision.complete():
            pass
        known = self.table.names
        if self.placements is not None:
            for position in candidates.known[self.placements.answers[candidates.known] == REFUSES].tolist():
                decision.refusals[known[position]] = self.placements.unplaced[position].refusal
        decision.refusals.update(self._refuse(candidates.known[refused], candidates.unknown, results))

    @property
    def _node_policy(self) -> NodePolicy:
        return self.demand.policy.node_policy

    def _rank(self, candidates: Candidates, ranks: Scores) -> Ranking:
        return Ranking(self.table.names, candidates.known, ranks, candidates=len(candidates), policy=self._node_policy)

    def _settle(self, decision: Decision, position: int, placement: Placement | Unplaced) -> None:
        if isinstance(placement, Unplaced):
            raise TypeError(f"node {self.table.names[position]} refuses what its cards allow: {placement.refusal.text}")
        decision.node = self.table.names[position]
        decision.shares, decision.instances = placement.shares, placement.instances

    def _exclude(self, decision: Decision, positions: Sequence[int], placements: PlacementCache) -> None:
        """Take out nodes that refused the pod."""
        decision.fitting.exclude_all(positions)
        for position in positions:
            decision.refusals[self.table.names[position]] = placements.unplaced[position].refusal

    def _place_on_others(self, decision: Decision, snapshot: Snapshot, placements: PlacementCache) -> Iterator[None]:
        """Place the pod on the nodes that are not known to refuse: they rank below the chosen one, but are counted."""
        for some in self._in_batches(np.array(decision.fitting.all(), np.int64)):
            changed = [position for position in some.tolist() if snapshot.has_changed(position)]
            same = np.setdiff1d(some, changed, assume_unique=True)
            self._place_on(placements, placements.untried(same))
            self._exclude(decision, same[placements.answers[same] == REFUSES].tolist(), placements)
            yield
            for position in changed:
                answer = self._placer.place(snapshot.copy_node(position))
                if isinstance(answer, Unplaced):
                    decision.fitting.exclude(position)
                    decision.refusals[self.table.names[position]] = answer.refusal
                yield

    def _recall_placements(self) -> PlacementCache:
        headroom = self.headroom if self._may_exceed_quota() else UNBOUNDED
        return self.placement_caches.recall(self.table, placement_class_of(self.demand, headroom))

    def _may_exceed_quota(self) -> bool:
        """Whether the namespace's quota may stand in the way of the pod as a whole."""
        asked = [container.request for container in self.demand.containers if container.request is not None]
        # Instances of divided cards are larger than what is asked for.
        return may_exceed(self.headroom, asked, self.table, self.compiled, gives_more=bool(self.table.partitions))

    def _is_quota_tight(self, request: Request) -> bool:
        """Whether the namespace's quota may stand in the way of the request that is placed first."""
        return may_exceed(self.headroom, (request,), self.table, self.compiled)

    def _filter(self) -> tuple[Request, FilterResults, bool, bool]:
        """Return the request placed first, its filter results, whether a quota is tight, and whether ranks decide.

        Raises UnsettledError when the results take longer than others should wait.
        """
        request = self.demand.placed_first
        is_quota_tight = self._is_quota_tight(request)
        by_rank = self._is_decided_by_rank(request, is_quota_tight=is_quota_tight)
        results = self._recall_results(request, is_quota_tight=is_quota_tight, ranks=by_rank)
        return request, results, is_quota_tight, by_rank

    def _recall_results(self, request: Request, *, is_quota_tight: bool, ranks: bool) -> FilterResults:
        """Return the filter results for a request, with ranks of nodes if these are to decide.

        Raises UnsettledError when they take longer than others should wait.
        """
        if is_quota_tight:
            # What a quota leaves changes with every pod of its namespace: not worth remembering.
            # With linked cards all count at once, otherwise nothing is collected yet.
            is_linked = self.compiled.links_cards(self.demand.policy)
            left = self.headroom.shared_by(request.cards) if is_linked else self.headroom
            return self.filter_cache.look(self.table, self._equivalence_class(request, left), ranks=ranks)
        equivalence_class = self._equivalence_class(request, UNBOUNDED)
        if ranks and self.most_tries is not None and self.filter_cache.begin(self.table, equivalence_class) is not None:
            raise self._make_unsettled()
        return self.filter_cache.recall(self.table, equivalence_class, ranks=ranks)

    def _equivalence_class(self, request: Request, headroom: Headroom) -> EquivalenceClass:
        mutex = self.demand.policy.card_policy.mutex
        policy = self.demand.policy if self.compiled.is_hooked else None
        return EquivalenceClass(request, self.demand.selector, mutex, headroom, self._node_policy, policy)

    def _make_unsettled(self) -> UnsettledError:
        return UnsettledError(replace(self, most_tries=None).place_ahead())

    def _refused_by_rules(
        self, known: Ints, request: Request, results: FilterResults, *, is_quota_tight: bool
    ) -> Flags:
        """Tell of each candidate whether the rules on single cards alone refuse it."""
        fitting = results.fitting[known]
        refused = fitting == 0
        if request.cards > 1 and not (self.demand.policy.numa_bind or is_quota_tight or self.compiled.is_hooked):
            refused |= (fitting < request.cards) & ~self._may_serve_twice(known)
        return refused

    def _may_serve_twice(self, known: Ints) -> Flags:
        """Nodes with cards that can be taken several times, an instance each."""
        if not self.demand.selector.takes_instances or not self.table.partitions:
            return np.zeros(len(known), bool)
        divided = np.zeros(len(self.table.names), bool)
        divided[self.table.cards.node[self.table.cards.division != UNDIVIDED]] = True
        return divided[known]

    @property
    def _placer(self) -> NodePlacer:
        return NodePlacer(self.compiled, self.table, self.demand, self.headroom, self.filter_cache.score_slots)
