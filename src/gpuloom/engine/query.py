"""One pod's question to the card table (scheduler 4.2 to 4.4).

The rules are asked once for all cards of the cluster. That one column answers which nodes can fit and why the others
do not; cards are chosen only on nodes that are left, best node first. What is not needed to answer, such as the fate of
all other candidates of a pod with several containers, is found out afterwards, from the table as it was.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from gpuloom.engine.assessment import Assessment
from gpuloom.engine.candidates import Candidates, find_best, look_up_among
from gpuloom.engine.decision import Decision, UnsettledError
from gpuloom.engine.demand import Demand
from gpuloom.engine.family import Family
from gpuloom.engine.giving import Giver
from gpuloom.engine.nameindex import NameIndex
from gpuloom.engine.placement import Placement, Unplaced
from gpuloom.engine.policies import SPREAD
from gpuloom.engine.ranking import UNFIT, Ranking
from gpuloom.engine.scores import Scores
from gpuloom.engine.snapshots import Snapshot
from gpuloom.engine.table import NOBODY, CardTable
from gpuloom.engine.tightness import may_exceed
from gpuloom.engine.told import Told
from gpuloom.engine.trials import REFUSES, TAKES, UNTRIED, Trials, kind_of
from gpuloom.engine.trying import MOST_AT_ONCE, Trial
from gpuloom.engine.verdicts import Shape, VerdictMemory, Verdicts
from gpuloom.model.cards import UNDIVIDED, Flags, Ints
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.request import Request
from gpuloom.model.want import UNBOUNDED, Headroom
from gpuloom.wire.nodenames import NodeNames


@dataclass(slots=True)
class Query:
    """One pod's question to the table.

    trials  what nodes said to pods of this kind, as far as it matters
    tried   the nodes on which the pod was placed in vain for this answer
    """

    family: Family
    table: CardTable
    memory: VerdictMemory
    index: NameIndex
    told: Told
    demand: Demand
    headroom: Headroom
    most_tries: int | None = None
    trials: Trials | None = None
    tried: dict[str, Refusal] = field(default_factory=dict)

    def answer(self, candidates: Candidates, *, explain: bool) -> Decision:
        """Choose among candidates; with ``explain``, or if none fits, every refusal is told."""
        request, verdicts, is_tight, is_plain = self._look()
        if is_plain:
            decision = self._choose_plain(candidates, verdicts)
            if decision.node is None:
                decision.refusals = self._tell_again(candidates, verdicts)
                return decision
            refused = verdicts.ranks[candidates.known] == UNFIT if explain else None
        else:
            refused = self._refused_by_column(candidates.known, request, verdicts, is_tight=is_tight)
            decision = self._choose_walking(candidates, refused)
        if refused is not None and (decision.node is None or explain):
            self._explain(decision, candidates, verdicts, refused)
        return decision

    def has_room(self) -> bool:
        """Tell whether any node would do."""
        request, verdicts, is_tight, is_plain = self._look()
        if is_plain:
            return bool((verdicts.ranks[NOBODY + 1 :] != UNFIT).any())
        known = self._all_nodes()
        refused = self._refused_by_column(known, request, verdicts, is_tight=is_tight)
        return self._choose_walking(Candidates(known, (), known), refused).node is not None

    def try_nodes(self) -> Iterator[None]:
        """Try all nodes step by step and remember what they say; see :meth:`Decider.try_nodes`."""
        request = self.demand.placed_first
        is_tight = self._is_tight(request)
        if self._is_plain(request, is_tight=is_tight):
            if not is_tight:
                yield from self.memory.begin(self.table, self._shape(request, UNBOUNDED)) or ()
            return
        verdicts = self._recall(request, is_tight=is_tight, ranks=False)
        known = self._all_nodes()
        refused = self._refused_by_column(known, request, verdicts, is_tight=is_tight)
        trials = self._recall_trials()
        for some in self._in_steps(known[~refused]):
            # Nodes may go while this goes on.
            left = trials.untried(some[self.table.ends[some] > self.table.starts[some]])
            if len(left):
                self._try(trials, left)
                yield

    def assess(self) -> Assessment:
        """Tell of all nodes whether the pod fits there, as far as this vendor's cards go.

        Raises UnsettledError when more nodes than may be are left to be tried.
        """
        request, verdicts, is_tight, is_plain = self._look()
        if is_plain:
            takes = verdicts.ranks != UNFIT
            takes[NOBODY] = False
            scores = -verdicts.ranks if self._is_spread else verdicts.ranks
            return Assessment(self.table, verdicts, takes, scores, self.demand.first_turn)
        known = self._all_nodes()
        refused = self._refused_by_column(known, request, verdicts, is_tight=is_tight)
        trials = self._recall_trials()
        self._try_few(trials, known[~refused])
        takes = np.zeros(len(self.table.names), bool)
        takes[known] = ~refused & (trials.answers[known] == TAKES)
        return Assessment(self.table, verdicts, takes, self._scores(trials), self.demand.first_turn, trials)

    def _all_nodes(self) -> Ints:
        count = len(self.table.names)
        return np.flatnonzero(self.table.ends[:count] > self.table.starts[:count])

    def search(self, names: NodeNames) -> Decision | None:
        """Answer by looking for the best nodes among the names; None where the names must be read for the answer."""
        request, verdicts, is_tight, is_plain = self._look()
        if not is_plain:
            return self._search_walking(names, request, verdicts, is_tight=is_tight)
        best = find_best(names, self.table, verdicts.ranks)
        if best is None:
            return None
        decision = Decision(None, (), (), partial(self._rank_among, names, verdicts.ranks.copy()), {})
        self._settle(decision, best, self._giver.give(best, verdicts))
        return decision

    def _search_walking(
        self, names: NodeNames, request: Request, verdicts: Verdicts, *, is_tight: bool
    ) -> Decision | None:
        """Look for the best nodes and place the pod on one after another, until one takes it."""
        known = self._all_nodes()
        refused = self._refused_by_column(known, request, verdicts, is_tight=is_tight)
        trials, ranks = self._recall_trials(), np.full(len(self.table.names), UNFIT)
        ranks[known] = self._rank_walking(known, refused, trials)
        decision = Decision(None, (), (), partial(self._rank_among, names, ranks), self.tried)
        tries = 0
        while (best := find_best(names, self.table, ranks)) is not None:
            if not self._try_best(decision, best, trials, tries):
                ranks[best] = UNFIT
                tries += 1
                continue
            if self.family.score is None:
                decision.rest = partial(self._try_others, snapshot=self.table.snapshot(), trials=trials)
            return decision
        return None

    def _rank_among(self, names: NodeNames, ranks: Scores) -> Ranking:
        """Rank the nodes that a call names, by what all nodes were worth when it was answered."""
        candidates = look_up_among(self.table, self.index, names)
        # A node that came after the decision has no rank in it.
        known = candidates.known[candidates.known < len(ranks)]
        return Ranking(self.table.names, known, ranks[known], candidates=len(candidates), spread=self._is_spread)

    def _is_plain(self, request: Request, *, is_tight: bool) -> bool:
        """Whether the column alone tells which nodes fit: one request, and nothing that depends on several cards."""
        containers = self.demand.containers
        if len(containers) > 1 and sum(container.request is not None for container in containers) > 1:
            return False
        if request.cards == 1 or self.family.is_hooked:
            return True
        return not (self.demand.choice.numa_bind or is_tight or self.table.partitions)

    def _choose_plain(self, candidates: Candidates, verdicts: Verdicts) -> Decision:
        ranks = verdicts.ranks[candidates.where]
        # A slice is a view: the ranks as they are now must outlast later changes.
        ranking = self._rank(candidates, ranks.copy() if ranks.base is not None else ranks)
        best = ranking.best()
        decision = Decision(None, (), (), ranking, {})
        if best is not None:
            self._settle(decision, best, self._giver.give(best, verdicts))
        return decision

    def _scores(self, trials: Trials) -> Scores:
        """Return the scores of nodes that take the pod."""
        scores = self.table.node_scores[: len(self.table.names)]
        return scores + trials.extra if self.family.score is not None else scores

    def _choose_walking(self, candidates: Candidates, refused: Flags) -> Decision:
        """Place the pod on one node after another, best first, until one takes it; the others come later."""
        trials = self.trials = self._recall_trials()
        ranks = self._rank_walking(candidates.known, refused, trials)
        decision = Decision(None, (), (), self._rank(candidates, ranks), self.tried)
        tries = 0
        while (best := decision.fitting.best()) is not None:
            if self._try_best(decision, best, trials, tries):
                if self.family.score is None:
                    decision.rest = partial(self._try_others, snapshot=self.table.snapshot(), trials=trials)
                break
            decision.fitting.strike(best)
            tries += 1
        return decision

    def _rank_walking(self, known: Ints, refused: Flags, trials: Trials) -> Scores:
        """Return the ranks of nodes that may take the pod; with scores of the vendor's, of those that do."""
        if self.family.score is not None:
            # What the pod's cards are worth decides as well, so all nodes must have answered.
            self._try_few(trials, known[~refused])
        scores = self._scores(trials)[known]
        refused = refused | (trials.answers[known] == REFUSES)
        return np.where(refused, UNFIT, -scores if self._is_spread else scores)

    def _try_best(self, decision: Decision, best: int, trials: Trials, tries: int) -> bool:
        """Place the pod on a node if it takes it; note why not if it does not.

        Raises UnsettledError when so many nodes were tried in vain.
        """
        is_new = trials.answers[best] == UNTRIED
        if is_new and tries == self.most_tries:
            raise self._unsettled()
        answer = self._giver.place(self.table.bench(best), weighs=is_new)
        if is_new:
            trials.note(best, answer)
        if isinstance(answer, Placement):
            self._settle(decision, best, answer)
            return True
        decision.refusals[self.table.names[best]] = trials.unplaced[best].refusal
        return False

    def _try_few(self, trials: Trials, positions: Ints) -> None:
        """Try those nodes that have not answered.

        Raises UnsettledError when they are too many for one step.
        """
        untried = trials.untried(positions)
        if self.most_tries is not None and len(untried) > self.most_tries:
            raise self._unsettled()
        for some in self._in_steps(untried):
            self._try(trials, some)

    def _try(self, trials: Trials, positions: Ints) -> None:
        """Try nodes and remember what they say."""
        if self._goes_together and len(positions) > 1:
            trial = Trial(self.family, self.demand, self.memory.score_slots, self.table)
            trials.note_many(positions, trial.on(positions))
        else:
            for position in positions.tolist():
                trials.note(position, self._giver.place(self.table.bench(position)))

    def _in_steps(self, positions: Ints) -> Iterator[Ints]:
        """Divide nodes into what may be tried before others have their turn."""
        size = MOST_AT_ONCE if self._goes_together else 1
        return (positions[first : first + size] for first in range(0, len(positions), size))

    @property
    def _goes_together(self) -> bool:
        """Whether single cards tell enough to try the pod on many nodes at once."""
        if self.table.partitions or self._may_exceed_quota():
            return False
        return self.family.is_hooked or not (
            self.demand.choice.numa_bind or self.family.links_cards(self.demand.choice)
        )

    def _tell_again(self, candidates: Candidates, verdicts: Verdicts) -> dict[str, Refusal]:
        """Tell why no candidate fits, as far as the column decides: as the last time if nothing has changed since."""
        refusals = self.told.recall(self.table, verdicts, candidates)
        if refusals is None:
            refusals = self._refuse(candidates.known, candidates.unknown, verdicts)
            self.told.note(self.table, verdicts, candidates, refusals)
        return refusals

    def _refuse(self, positions: Ints, unknown: Iterable[str], verdicts: Verdicts) -> dict[str, Refusal]:
        names = map(self.table.names.__getitem__, positions.tolist())
        refusals = dict(zip(names, verdicts.refuse(self.table, positions), strict=True))
        refusals.update(dict.fromkeys(unknown, refuse_node(Reason.NODE_UNREGISTERED)))
        return refusals

    def _explain(self, decision: Decision, candidates: Candidates, verdicts: Verdicts, refused: Flags) -> None:
        """Tell of every candidate that does not fit why."""
        for _ in decision.complete():
            pass
        known = self.table.names
        if self.trials is not None:
            for position in candidates.known[self.trials.answers[candidates.known] == REFUSES].tolist():
                decision.refusals[known[position]] = self.trials.unplaced[position].refusal
        decision.refusals.update(self._refuse(candidates.known[refused], candidates.unknown, verdicts))

    @property
    def _is_spread(self) -> bool:
        return self.demand.choice.node_policy == SPREAD

    def _rank(self, candidates: Candidates, ranks: Scores) -> Ranking:
        return Ranking(self.table.names, candidates.known, ranks, candidates=len(candidates), spread=self._is_spread)

    def _settle(self, decision: Decision, position: int, placement: Placement | Unplaced) -> None:
        if isinstance(placement, Unplaced):
            raise TypeError(f"node {self.table.names[position]} refuses what its cards allow: {placement.refusal.text}")
        decision.node = self.table.names[position]
        decision.shares, decision.instances = placement.shares, placement.instances

    def _strike(self, decision: Decision, positions: Sequence[int], trials: Trials) -> None:
        """Take nodes out that were tried and refused."""
        decision.fitting.strike_all(positions)
        for position in positions:
            decision.refusals[self.table.names[position]] = trials.unplaced[position].refusal

    def _try_others(self, decision: Decision, snapshot: Snapshot, trials: Trials) -> Iterator[None]:
        """Try the nodes that are not known to refuse: they are worse than the chosen one, but count."""
        for some in self._in_steps(np.array(decision.fitting.all(), np.int64)):
            changed = [position for position in some.tolist() if snapshot.has_changed(position)]
            same = np.setdiff1d(some, changed, assume_unique=True)
            self._try(trials, trials.untried(same))
            self._strike(decision, same[trials.answers[same] == REFUSES].tolist(), trials)
            yield
            for position in changed:
                answer = self._giver.place(snapshot.bench(position))
                if isinstance(answer, Unplaced):
                    decision.fitting.strike(position)
                    decision.refusals[self.table.names[position]] = answer.refusal
                yield

    def _recall_trials(self) -> Trials:
        headroom = self.headroom if self._may_exceed_quota() else UNBOUNDED
        return self.memory.recall_trials(self.table, kind_of(self.demand, headroom))

    def _may_exceed_quota(self) -> bool:
        """Whether the namespace's quota may stand in the way of the pod as a whole."""
        asked = [container.request for container in self.demand.containers if container.request is not None]
        # Instances of divided cards are larger than what is asked for.
        return may_exceed(self.headroom, asked, self.table, self.family, gives_more=bool(self.table.partitions))

    def _is_tight(self, request: Request) -> bool:
        """Whether the namespace's quota may stand in the way of the request that is placed first."""
        return may_exceed(self.headroom, (request,), self.table, self.family)

    def _look(self) -> tuple[Request, Verdicts, bool, bool]:
        """Return the request placed first, the verdicts on all cards, whether a quota is tight and all plain.

        Raises UnsettledError when the verdicts take longer than others should wait.
        """
        request = self.demand.placed_first
        is_tight = self._is_tight(request)
        is_plain = self._is_plain(request, is_tight=is_tight)
        return request, self._recall(request, is_tight=is_tight, ranks=is_plain), is_tight, is_plain

    def _recall(self, request: Request, *, is_tight: bool, ranks: bool) -> Verdicts:
        """Return the verdicts on all cards, with ranks of nodes if these are to decide.

        Raises UnsettledError when they take longer than others should wait.
        """
        if is_tight:
            # What a quota leaves changes with every pod of its namespace: not worth remembering.
            # With linked cards all count at once, otherwise nothing is collected yet.
            is_linked = self.family.links_cards(self.demand.choice)
            left = self.headroom.shared_by(request.cards) if is_linked else self.headroom
            return self.memory.look(self.table, self._shape(request, left), ranks=ranks)
        shape = self._shape(request, UNBOUNDED)
        if ranks and self.most_tries is not None and self.memory.begin(self.table, shape) is not None:
            raise self._unsettled()
        return self.memory.recall(self.table, shape, ranks=ranks)

    def _shape(self, request: Request, headroom: Headroom) -> Shape:
        mutex = self.demand.choice.card_policy.mutex
        choice = self.demand.choice if self.family.is_hooked else None
        return Shape(request, self.demand.selection, mutex, headroom, self._is_spread, choice)

    def _unsettled(self) -> UnsettledError:
        return UnsettledError(replace(self, most_tries=None).try_nodes())

    def _refused_by_column(self, known: Ints, request: Request, verdicts: Verdicts, *, is_tight: bool) -> Flags:
        """Nodes that the column alone refuses, by position among the candidates."""
        fitting = verdicts.fitting[known]
        refused = fitting == 0
        if request.cards > 1 and not (self.demand.choice.numa_bind or is_tight or self.family.is_hooked):
            refused |= (fitting < request.cards) & ~self._may_serve_twice(known)
        return refused

    def _may_serve_twice(self, known: Ints) -> Flags:
        """Nodes with cards that can be taken several times, an instance each."""
        if not self.demand.selection.takes_instances or not self.table.partitions:
            return np.zeros(len(known), bool)
        divided = np.zeros(len(self.table.names), bool)
        divided[self.table.cards.node[self.table.cards.division != UNDIVIDED]] = True
        return divided[known]

    @property
    def _giver(self) -> Giver:
        return Giver(self.family, self.table, self.demand, self.headroom, self.memory.score_slots)
