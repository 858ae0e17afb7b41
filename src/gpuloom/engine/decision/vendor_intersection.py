"""One node for cards of several vendors (vendors 0.3): each vendor's columns, laid over each other.

Cards of different vendors do not know each other, so a node takes the pod when each vendor's cards there do. Columns
are those of the first vendor's table, into which the others' are carried over by the names of nodes.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import filterfalse

import numpy as np

from gpuloom.engine.decision.assessment import Assessment
from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.filtering.candidates import Candidates, find_best, find_positions, look_up
from gpuloom.engine.scoring.policy import NodePolicy
from gpuloom.engine.scoring.ranking import UNFIT, Ranking
from gpuloom.engine.state.card_table import NO_NODE
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.model.cards import Ints, Points, Scores
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.wire.nodenames import NodeNames

TOO_FEW = refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)
"""For nodes that have cards of other vendors only: they are known."""
_UNKNOWN = refuse_node(Reason.NODE_UNREGISTERED)
_FITS = np.iinfo(np.int64).max
_NO_SPEAKER = -1


class VendorIntersection:
    """What all vendors that a pod asks for say together, in ascending order of their words."""

    def __init__(self, cluster_state: ClusterState, assessments: Mapping[str, Assessment], policy: NodePolicy) -> None:
        self._cluster_state = cluster_state
        self._assessments = dict(sorted(assessments.items()))
        self._first = next(iter(self._assessments))
        self._policy = policy
        self._table = self._assessments[self._first].table
        self._names: Sequence[str] = self._table.names
        self._ranks = self._rank()

    def search(self, names: NodeNames) -> Decision | None:
        """Answer by looking for the best nodes among the names; None where the names must be read for the answer."""
        best = find_best(names, self._table, self._ranks)
        if best is None:
            return None
        return Decision(partial(self._rank_among, names), self._names[best])

    def answer(self, names: Sequence[str], *, explain: bool) -> Decision:
        """Choose among nodes; with ``explain``, or if none fits, every refusal is told."""
        candidates = look_up(self._table, names)
        ranking = self._ranking(candidates)
        best = ranking.best()
        decision = Decision(ranking, None if best is None else self._names[best])
        if best is None or explain:
            decision.refusals = self._refuse(list(dict.fromkeys(names)))
        return decision

    def _rank_among(self, names: NodeNames) -> Ranking:
        return self._ranking(look_up(self._table, names.all()))

    def _ranking(self, candidates: Candidates) -> Ranking:
        return candidates.rank(self._table, self._ranks, self._policy, self._names)

    def _rank(self) -> Scores:
        """Return ranks by position: what all vendors' ranks have in common, counted once, and what each adds."""
        first = self._assessments[self._first]
        takes = first.takes.copy()
        total = self._rank_in_common(first)[: len(takes)]
        for word, one in self._assessments.items():
            where = self._cluster_state.across(self._first, word)
            # Only where all take the pod are there scores of all.
            takes &= one.takes[where]
            at = where[takes]
            total[takes] += one.ranks[at].astype(np.float64) - self._rank_in_common(one)[at]
        return np.where(takes, total, UNFIT).astype(np.float32)

    def _rank_in_common(self, one: Assessment) -> Points:
        ranks: Points = self._policy.rank_in_common(one.table.node_scores.astype(np.float64))
        return ranks

    def _refuse(self, names: Sequence[str]) -> dict[str, Refusal]:
        """Say of every node that does not take the pod why: the container that is placed first tells.

        Of one container the vendor whose word comes first tells, so equal turns go to it.
        """
        words = list(self._assessments)
        positions = [self._find(word, names) for word in words]
        turns = np.stack([self._turns(word, found) for word, found in zip(words, positions, strict=True)])
        speaker = np.where((turns == _FITS).all(axis=0), _NO_SPEAKER, turns.argmin(axis=0))
        refusals = dict.fromkeys(names, TOO_FEW)
        refusals.update(dict.fromkeys(filterfalse(self._cluster_state.nodes.__contains__, names), _UNKNOWN))
        for number, word in enumerate(words):
            known = np.flatnonzero((speaker == number) & (positions[number] != NO_NODE))
            refused = self._assessments[word].refuse(positions[number][known])
            refusals.update(zip([names[at] for at in known.tolist()], refused, strict=True))
        for at in np.flatnonzero(speaker == _NO_SPEAKER).tolist():
            del refusals[names[at]]
        return refusals

    def _find(self, word: str, names: Sequence[str]) -> Ints:
        return find_positions(self._assessments[word].table, names)

    def _turns(self, word: str, positions: Ints) -> Ints:
        one = self._assessments[word]
        return np.where(one.takes[positions], _FITS, one.turns(positions))
