"""One attempt to schedule a pod on the cards of one vendor (scheduler 4.2 to 4.4).

Filter: the rules are asked once for all cards of the cluster. That one column tells which nodes can serve and why the
others cannot. Score: nodes that are left are ranked. Place: cards are chosen on the best node; where single cards do
not decide, on one node after another until one takes the pod. What the answer does not need, such as the fate of all
other candidates of a pod with several containers, is found out afterwards, from the table as it was.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

import numpy as np

from gpuloom.engine.decision.assessment import Assessment
from gpuloom.engine.decision.decision import Decision, UnsettledError
from gpuloom.engine.filtering.candidates import Candidates, find_best, look_up_among
from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.filtering.equivalence_class import EquivalenceClass, classify
from gpuloom.engine.filtering.filter_cache import FilterCache
from gpuloom.engine.filtering.filter_results import FilterResults
from gpuloom.engine.filtering.quota_bounds import may_exceed
from gpuloom.engine.filtering.refusal_cache import RefusalCache
from gpuloom.engine.placement.node_placer import place_fitting
from gpuloom.engine.placement.placement_cache import (
    REFUSES,
    TAKES,
    UNTRIED,
    PlacementCache,
    PlacementCaches,
    placement_class_of,
)
from gpuloom.engine.placement.placer import Placement, Placer, Unplaced
from gpuloom.engine.request.demand import Demand
from gpuloom.engine.scoring.ranking import UNFIT, Ranking
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.engine.state.snapshot import Snapshot
from gpuloom.model.cards import UNDIVIDED, Flags, Ints, Scores
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.request import Request
from gpuloom.model.request_columns import UNBOUNDED, Headroom
from gpuloom.wire.nodeindex import NameIndex
from gpuloom.wire.nodenames import NodeNames

NOT_CLOSED: Mapping[str, Refusal] = MappingProxyType({})
"""For the usual case that only cards decide."""
BATCH_SIZE = 128
"""So many nodes are asked in one step where cards can be chosen one by one: that takes one to two milliseconds."""


@dataclass(slots=True)
class SchedulingAttempt:
    """One attempt. Nothing is changed but what is remembered.

    index       of the table's names
    most_tries  on so many nodes the pod may be placed before others have their turn, None for any number
    closed      nodes that do not take the pod whatever their cards say, and why
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
    closed: Mapping[str, Refusal] = field(default_factory=lambda: NOT_CLOSED)
    _refusals: dict[str, Refusal] = field(default_factory=dict)
    _results: FilterResults | None = field(default=None, init=False)
    _placements: PlacementCache | None = field(default=None, init=False)
    _request: Request = field(init=False)
    _is_quota_tight: bool = field(init=False)
    _is_decided_by_rank: bool = field(init=False)

    def __post_init__(self) -> None:
        # The request placed first: to it the cards as they are are the whole truth.
        self._request = self.demand.placed_first
        # Whether the namespace's quota may stand in its way.
        self._is_quota_tight = may_exceed(self.headroom, (self._request,), self.table, self.compiled)
        self._is_decided_by_rank = self._do_single_cards_decide()

    def answer(self, candidates: Candidates, *, explain: bool) -> Decision:
        """Choose among candidates; with ``explain``, or if none fits, every refusal is found out."""
        decision = self._decide(candidates)
        if decision.node is None and self._is_decided_by_rank:
            decision.refusals = self._refuse_all(candidates)
        elif decision.node is None or explain:
            self._explain(decision, candidates)
        return decision

    def has_capacity(self, node: str | None = None) -> bool:
        """Tell whether any node would do, or the one that is named."""
        known = self._all_nodes() if node is None else self._find(node)
        if self._is_decided_by_rank:
            return bool((self._filter().ranks[known] != UNFIT).any())
        return self._decide(Candidates(known, (), known)).node is not None

    def place_ahead(self) -> Iterator[None]:
        """Place the pod on all nodes step by step and remember the answers; see :meth:`VendorScheduler.place_ahead`."""
        if self._is_decided_by_rank:
            if not self._is_quota_tight:
                yield from self.filter_cache.begin(self.table, self._classify(UNBOUNDED)) or ()
            return
        known, placements = self._all_nodes(), self._recall_placements()
        for some in self._in_batches(known[~self._refused_by_rules(known)]):
            # Nodes may go while this goes on.
            left = placements.untried(some[self.table.ends[some] > self.table.starts[some]])
            if len(left):
                self._place_on(placements, left)
                yield

    def assess(self) -> Assessment:
        """Tell of all nodes whether the pod fits there, as far as this vendor's cards go.

        Raises UnsettledError when more than ``most_tries`` nodes have not answered.
        """
        results = self._filter()
        if self._is_decided_by_rank:
            takes = results.ranks != UNFIT
            takes[NO_NODE] = False
            return Assessment(self.table, results, takes, results.ranks, self.demand.first_turn)
        known, placements = self._all_nodes(), self._recall_placements()
        refused = self._refused_by_rules(known)
        self._place_on_untried(placements, known[~refused])
        takes = np.zeros(len(self.table.names), bool)
        takes[known] = ~refused & (placements.answers[known] == TAKES)
        nodes = slice(len(self.table.names))
        ranks = results.rank_placed(self.table, self._node_scores(placements), nodes)
        return Assessment(self.table, results, takes, ranks, self.demand.first_turn, placements)

    def search(self, names: NodeNames) -> Decision | None:
        """Answer by looking for the best nodes among the names; None where the names must be read for the answer."""
        ranks = self._rank()
        decision = Decision(partial(self._rank_among, names, ranks, self.table.names), refusals=self._refusals)
        self._choose(decision, partial(find_best, names, self.table, ranks), partial(_exclude_from, ranks))
        return decision if decision.node is not None else None

    def _rank_among(self, names: NodeNames, ranks: Scores, then: Sequence[str]) -> Ranking:
        """Rank nodes when somebody wants to know; ``then`` are the names by position from when the ranks are."""
        candidates = look_up_among(self.table, self.index, names)
        return candidates.rank(self.table, ranks, self.demand.preferences.node_policy, then)

    def _decide(self, candidates: Candidates) -> Decision:
        ranking = candidates.rank(self.table, self._rank(candidates.known), self.demand.preferences.node_policy)
        decision = Decision(ranking, refusals=self._refusals)
        self._choose(decision, ranking.best, ranking.exclude)
        return decision

    @property
    def _placer(self) -> Placer:
        return Placer(self.compiled, self.demand, self.headroom)

    def _do_single_cards_decide(self) -> bool:
        """Whether single cards alone decide which nodes fit: one request, and nothing that depends on several cards."""
        containers = self.demand.containers
        if len(containers) > 1 and sum(container.request is not None for container in containers) > 1:
            return False
        if self._request.cards == 1 or self.compiled.is_hooked:
            return True
        return not (self.demand.preferences.numa_bind or self._is_quota_tight or self.table.partitions)

    def _is_closed(self, positions: Ints) -> Flags:
        return np.isin(positions, [self.table.positions.get(node, NO_NODE) for node in self.closed])

    def _refuse_closed(self, positions: Ints) -> dict[str, Refusal]:
        """Return why those of some nodes refuse that are closed."""
        names = map(self.table.names.__getitem__, positions[self._is_closed(positions)].tolist())
        return {name: self.closed[name] for name in names}

    def _all_nodes(self) -> Ints:
        count = len(self.table.names)
        return np.flatnonzero(self.table.ends[:count] > self.table.starts[:count])

    def _find(self, node: str) -> Ints:
        position = self.table.positions.get(node, NO_NODE)
        return np.array([] if position == NO_NODE else [position], np.int64)

    def _node_scores(self, placements: PlacementCache) -> Scores:
        """Return the scores of nodes that take the pod."""
        scores = self.table.node_scores[: len(self.table.names)]
        return scores + placements.extra if self.compiled.score is not None else scores

    def _rank(self, known: Ints | None = None) -> Scores:
        """Return by position the ranks of nodes that may take the pod; of those that do, where the vendor scores.

        They are as they are now, and may be changed.

        known  only these nodes need ranks, all if None
        """
        if self._is_decided_by_rank:
            ranks = self._filter().ranks.copy()
            if self.closed:
                ranks[[self.table.positions.get(node, NO_NODE) for node in self.closed]] = UNFIT
            return ranks
        known = self._all_nodes() if known is None else known
        placements, refused = self._recall_placements(), self._refused_by_rules(known)
        if self.closed:
            refused |= self._is_closed(known)
        if self.compiled.score is not None:
            # What the pod's cards are worth decides as well, so all nodes must have answered.
            self._place_on_untried(placements, known[~refused])
        scores = self._node_scores(placements)[known]
        refused |= placements.answers[known] == REFUSES
        ranks = np.full(len(self.table.names), UNFIT)
        ranks[known] = np.where(refused, UNFIT, self._filter().rank_placed(self.table, scores, known))
        return ranks

    def _choose(self, decision: Decision, find: Callable[[], int | None], exclude: Callable[[int], None]) -> None:
        """Place the pod on the best node; where single cards do not decide, on the next until one takes it.

        find, exclude: return the best node that is left, take one out
        The others come later. Raises UnsettledError when the pod was placed on ``most_tries`` nodes in vain.
        """
        if self._is_decided_by_rank:
            if (best := find()) is not None:
                self._settle(decision, best, place_fitting(self._placer, self.table, best, self._filter()))
            return
        placements = self._recall_placements()
        for tries, best in enumerate(iter(find, None)):
            is_new = placements.answers[best] == UNTRIED
            if is_new and tries == self.most_tries:
                raise self._make_unsettled()
            result = self._placer.place(self.table.copy_node(best), scores_extra=is_new)
            if is_new:
                placements.note(np.array([best]), result)
            if result.takes[0]:
                self._settle(decision, best, result.answer())
                if self.compiled.score is None:
                    rest = partial(self._place_on_others, snapshot=self.table.snapshot(), placements=placements)
                    decision.rest = rest
                return
            decision.refusals[self.table.names[best]] = placements.unplaced[best].refusal
            exclude(best)

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
        if len(positions):
            placements.note(positions, self._placer.place(self.table.copy_nodes(positions)))

    def _in_batches(self, positions: Ints) -> Iterator[Ints]:
        """Divide nodes into batches after which others have their turn."""
        is_quick = self._placer.places_at_once and not (self.table.partitions or self._may_exceed_quota())
        size = BATCH_SIZE if is_quick else 1
        return (positions[first : first + size] for first in range(0, len(positions), size))

    def _refuse_all(self, candidates: Candidates) -> dict[str, Refusal]:
        """Return why no candidate fits: the refusals of the last time if nothing has changed since."""
        results = self._filter()
        refusals = self.refusal_cache.recall(self.table, results, candidates, self.closed)
        if refusals is None:
            known = candidates.known[~self._is_closed(candidates.known)] if self.closed else candidates.known
            refusals = self._refuse(known, candidates.unknown)
            refusals.update(self._refuse_closed(candidates.known))
            self.refusal_cache.note(self.table, results, candidates, self.closed, refusals)
        return refusals

    def _refuse(self, positions: Ints, unknown: Iterable[str]) -> dict[str, Refusal]:
        names = map(self.table.names.__getitem__, positions.tolist())
        refusals = dict(zip(names, self._filter().refuse(self.table, positions), strict=True))
        refusals.update(dict.fromkeys(unknown, refuse_node(Reason.NODE_UNREGISTERED)))
        return refusals

    def _explain(self, decision: Decision, candidates: Candidates) -> None:
        """Tell of every candidate that does not fit why."""
        known = candidates.known
        if self._is_decided_by_rank:
            refused = self._filter().ranks[known] == UNFIT
        else:
            refused, placements = self._refused_by_rules(known), self._recall_placements()
            asked = known[~(refused | self._is_closed(known))]
            self._place_on_untried(placements, asked)
            decision.fitting.exclude(self._note_refusing(decision, asked, placements))
            decision.rest = None
        decision.refusals.update(self._refuse(known[refused], candidates.unknown))
        decision.refusals.update(self._refuse_closed(known))

    def _note_refusing(self, decision: Decision, positions: Ints, placements: PlacementCache) -> list[int]:
        """Note why those of some nodes refuse that do, and return them."""
        refusing: list[int] = positions[placements.answers[positions] == REFUSES].tolist()
        for position in refusing:
            decision.refusals[self.table.names[position]] = placements.unplaced[position].refusal
        return refusing

    def _settle(self, decision: Decision, position: int, placement: Placement | Unplaced) -> None:
        if isinstance(placement, Unplaced):
            raise TypeError(f"node {self.table.names[position]} refuses what its cards allow: {placement.refusal.text}")
        decision.node = self.table.names[position]
        decision.shares = {self.compiled.profile.word: placement.shares}
        decision.instances = placement.instances

    def _place_on_others(self, decision: Decision, snapshot: Snapshot, placements: PlacementCache) -> Iterator[None]:
        """Place the pod on the nodes that are not known to refuse: they rank below the chosen one, but are counted."""
        for some in self._in_batches(np.array(decision.fitting.all(), np.int64)):
            changed = [position for position in some.tolist() if snapshot.has_changed(position)]
            same = np.setdiff1d(some, changed, assume_unique=True)
            self._place_on(placements, placements.untried(same))
            decision.fitting.exclude(self._note_refusing(decision, same, placements))
            yield
            for position in changed:
                if unplaced := self._placer.place(snapshot.copy_node(position)).unplaced.get(0):
                    decision.fitting.exclude(position)
                    decision.refusals[snapshot.names[position]] = unplaced.refusal
                yield

    def _recall_placements(self) -> PlacementCache:
        """Return what nodes answered to pods of this class."""
        if self._placements is None:
            headroom = self.headroom if self._may_exceed_quota() else UNBOUNDED
            placement_class = placement_class_of(self.demand, headroom)
            self._placements = self.placement_caches.recall(self.table, placement_class)
        return self._placements

    def _may_exceed_quota(self) -> bool:
        """Whether the namespace's quota may stand in the way of the pod as a whole."""
        asked = [container.request for container in self.demand.containers if container.request is not None]
        # Instances of divided cards are larger than what is asked for.
        return may_exceed(self.headroom, asked, self.table, self.compiled, gives_more=bool(self.table.partitions))

    def _filter(self) -> FilterResults:
        """Return the filter results of the request placed first, with ranks of nodes if these decide.

        Raises UnsettledError when they take longer than others should wait.
        """
        if self._results is None:
            may_take_long = self._is_decided_by_rank and self.most_tries is not None and not self._is_quota_tight
            settle = self.filter_cache.settle
            results = settle(self.table, self._classify(UNBOUNDED)) if may_take_long else self._recall_results()
            if results is None:
                raise self._make_unsettled()
            self._results = results
        return self._results

    def _recall_results(self) -> FilterResults:
        ranks = self._is_decided_by_rank
        if not self._is_quota_tight:
            return self.filter_cache.recall(self.table, self._classify(UNBOUNDED), ranks=ranks)
        # What a quota leaves changes with every pod of its namespace: not worth remembering.
        # With linked cards all count at once, otherwise nothing is collected yet.
        is_linked = self.compiled.links_cards(self.demand.preferences)
        left = self.headroom.shared_by(self._request.cards) if is_linked else self.headroom
        return self.filter_cache.compute(self.table, self._classify(left), ranks=ranks)

    def _classify(self, headroom: Headroom) -> EquivalenceClass:
        return classify(self.compiled, self.demand, self._request, headroom)

    def _make_unsettled(self) -> UnsettledError:
        return UnsettledError(replace(self, most_tries=None).place_ahead())

    def _refused_by_rules(self, known: Ints) -> Flags:
        """Tell of each node whether the rules on single cards alone refuse it."""
        fitting, wanted = self._filter().fitting[known], self._request.cards
        refused = fitting == 0
        if wanted > 1 and not (self.demand.preferences.numa_bind or self._is_quota_tight or self.compiled.is_hooked):
            refused |= (fitting < wanted) & ~self._may_serve_twice(known)
        return refused

    def _may_serve_twice(self, known: Ints) -> Flags:
        """Nodes with cards that can be taken several times, an instance each."""
        if not self.demand.selector.takes_instances or not self.table.partitions:
            return np.zeros(len(known), bool)
        divided = np.zeros(len(self.table.names), bool)
        divided[self.table.cards.node[self.table.cards.division != UNDIVIDED]] = True
        return divided[known]


def _exclude_from(ranks: Scores, position: int) -> None:
    ranks[position] = UNFIT
