"""The decision for a pod that may ask several vendors: one question to each, one answer (scheduler 6.1, vendors 0.3).

Cards of different vendors do not know each other, so a node takes the pod when each vendor's cards there do. What they
share is the node's score, and that is of all of its cards.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpuloom.engine.annotations import annotate
from gpuloom.engine.decider import Decider
from gpuloom.engine.decision import Decision
from gpuloom.engine.demand import Demand, Demands, Phase
from gpuloom.engine.fleet import Fleet
from gpuloom.engine.ledger import NOTHING_ELSE
from gpuloom.engine.options import Options
from gpuloom.engine.placement import PHASES_IN_ORDER_OF_PLACING
from gpuloom.engine.policies import SPREAD
from gpuloom.engine.ranking import UNFIT, Ranking
from gpuloom.engine.rules import select_rules
from gpuloom.engine.table import NodeCards
from gpuloom.model.mig import MigAllocation
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.share import PodShares
from gpuloom.model.want import Headroom
from gpuloom.vendors.decided import Decided
from gpuloom.wire.nodenames import NodeNames


@dataclass(slots=True)
class Ruling:
    """What was decided for one pod, over all vendors.

    shares   by vendor, one entry per container, init containers first; empty without a node
    extras   what else is written on the pod
    decision node, candidates, scores and refusals
    """

    decision: Decision
    shares: PodShares
    instances: tuple[MigAllocation, ...] = ()
    extras: Mapping[str, str] = field(default_factory=lambda: NOTHING_ELSE)

    @property
    def node(self) -> str | None:
        """The chosen node, None when none fits."""
        return self.decision.node

    @property
    def candidates(self) -> int:
        """How many nodes there were to choose from."""
        return self.decision.candidates

    @property
    def fitting(self) -> Ranking:
        """The nodes that fit, with their scores."""
        return self.decision.fitting

    @property
    def refusals(self) -> dict[str, Refusal]:
        """The nodes that do not fit, and why; complete only if asked for or if none fits."""
        return self.decision.refusals

    @property
    def is_complete(self) -> bool:
        """Whether all is known; see :meth:`Decision.complete`."""
        return self.decision.is_complete

    def complete(self) -> Iterator[None]:
        """Find out what is still open; see :meth:`Decision.complete`."""
        return self.decision.complete()


@dataclass
class Judge:
    """Decides over the cards of all vendors."""

    fleet: Fleet
    options: Options

    @cached_property
    def deciders(self) -> dict[str, Decider]:
        """What decides over the cards of each vendor."""
        return {
            profile.word: Decider(self.fleet[profile.word], profile, self.options, select_rules(profile.fit.checks))
            for profile in self.fleet.catalog
        }

    def decide(
        self,
        demands: Demands,
        names: Sequence[str],
        *,
        explain: bool = False,
        headrooms: Mapping[str, Headroom] | None = None,
    ) -> Ruling:
        """Choose node and cards for a pod; with ``explain`` every refusal is told even if a node fits.

        names      of the nodes to choose from; the order breaks ties
        headrooms  what quotas leave of each vendor's cards, where that is not what is known here
        Raises ValueError when the demands ask for no card: such a pod needs no decision.
        """
        if not demands:
            raise ValueError("the pod asks for no card")
        headrooms = headrooms or {}
        if len(demands) == 1:
            word, demand = next(iter(demands.items()))
            decision = self._ask(word, demand, names, headrooms, explain=explain)
        else:
            decision = self._ask_all(demands, names, headrooms)
        return self._rule(decision, demands, headrooms)

    def decide_among(self, demands: Demands, names: NodeNames, *, most_tries: int | None = None) -> Ruling:
        """Choose as :meth:`decide` does, among nodes as a call names them; large lists are not read before the answer.

        Raises ValueError when the demands ask for no card, UnsettledError when so many nodes were tried in vain.
        """
        if len(demands) != 1:
            return self.decide(demands, names.all())
        word, demand = next(iter(demands.items()))
        decision = self.deciders[word].decide_among(demand, names, most_tries=most_tries)
        self._know_other_vendors(word, decision, decision.refusals)
        return self._rule(decision, demands, {})

    def has_room(self, demands: Demands) -> bool:
        """Tell whether any node would do, without saying which or why the others would not."""
        if len(demands) != 1:
            return bool(demands) and self.decide(demands, tuple(self.fleet.nodes)).node is not None
        ((word, demand),) = demands.items()
        return self.deciders[word].has_room(demand)

    def try_nodes(self, demands: Demands) -> Iterator[None]:
        """Try nodes ahead of a question, a node between two steps; see :meth:`Decider.try_nodes`."""
        for word, demand in demands.items():
            yield from self.deciders[word].try_nodes(demand)

    def _know_other_vendors(self, word: str, decision: Decision, names: Iterable[str]) -> None:
        """Tell nodes that have cards of other vendors only from those that have none: they are known."""
        if not decision.refusals or not self.fleet.has_others(word):
            return
        for name in list(names):
            if Reason.NODE_UNREGISTERED in decision.refusals[name].counts and self.fleet.has(name):
                decision.refusals[name] = _TOO_FEW

    def find_obstacle(self, demands: Demands, names: Sequence[str]) -> str:
        """Return the vendor of which the fewest nodes would do: the one to tell people about."""
        if len(demands) == 1:
            return next(iter(demands))
        fitting = {word: len(self.decide({word: demand}, names).fitting) for word, demand in demands.items()}
        return min(fitting, key=lambda word: (fitting[word], word))

    def simulate(self, demands: Demands, nodes: Mapping[str, Mapping[str, NodeCards]]) -> Ruling:
        """Decide as if these were the nodes and nothing on them were used; quotas count as they are (4.8)."""
        imagined = Judge(Fleet(self.fleet.catalog), self.options)
        for name, by_vendor in nodes.items():
            for word, registered in by_vendor.items():
                imagined.fleet.register(name, word, registered)
        headrooms = {word: self.deciders[word].headroom(demand) for word, demand in demands.items()}
        return imagined.decide(demands, tuple(nodes), explain=True, headrooms=headrooms)

    def _ask(
        self, word: str, demand: Demand, names: Sequence[str], headrooms: Mapping[str, Headroom], *, explain: bool
    ) -> Decision:
        decider = self.deciders[word]
        candidates = decider.look_up(names)
        decision = decider.decide(demand, candidates, explain=explain, headroom=headrooms.get(word))
        self._know_other_vendors(word, decision, candidates.unknown)
        return decision

    def _ask_all(self, demands: Demands, names: Sequence[str], headrooms: Mapping[str, Headroom]) -> Decision:
        """Ask every vendor about all nodes, and put together what they say."""
        names = tuple(dict.fromkeys(names))
        answers = {word: self._ask(word, demand, names, headrooms, explain=True) for word, demand in demands.items()}
        for answer in answers.values():
            for _ in answer.complete():
                pass
        refusals = {name: self._first_refusal(name, demands, answers, headrooms) for name in names}
        spread = next(iter(demands.values())).choice.node_policy == SPREAD
        scores = _add_up(self.fleet, answers)
        ranks = [UNFIT if refusals[name] is not None else (-scores[name] if spread else scores[name]) for name in names]
        ranking = Ranking(names, np.arange(len(names)), np.array(ranks, np.float32), spread=spread)
        best = ranking.best()
        found = {name: refusal for name, refusal in refusals.items() if refusal is not None}
        return Decision(None if best is None else names[best], (), (), len(names), ranking, found)

    def _first_refusal(
        self, name: str, demands: Demands, answers: Mapping[str, Decision], headrooms: Mapping[str, Headroom]
    ) -> Refusal | None:
        """Return the refusal of the container that is placed first; of one container, of the first vendor."""
        refusing = [word for word, answer in answers.items() if name in answer.refusals]
        if len(refusing) > 1 and self.fleet.has(name):
            turns = {word: self._failing_turn(name, demands[word], headrooms.get(word), word) for word in refusing}
            refusing.sort(key=lambda word: (turns[word], word))
        return answers[refusing[0]].refusals[name] if refusing else None

    def _failing_turn(self, name: str, demand: Demand, headroom: Headroom | None, word: str) -> int:
        """Tell how many containers are placed before the one that does not fit."""
        decider = self.deciders[word]
        turns = [
            at
            for phase in PHASES_IN_ORDER_OF_PLACING
            for at, container in enumerate(demand.containers)
            if container.phase is phase
        ]
        for turn in range(1, len(turns) + 1):
            earlier = set(turns[:turn])
            containers = tuple(
                one if at in earlier else replace(one, request=None) for at, one in enumerate(demand.containers)
            )
            if not any(one.request for one in containers):
                continue
            fewer = replace(demand, containers=containers)
            if decider.decide(fewer, decider.look_up((name,)), headroom=headroom).node is None:
                return turn
        return len(turns)

    def _rule(self, decision: Decision, demands: Demands, headrooms: Mapping[str, Headroom]) -> Ruling:
        """Add what a node means for the pod: its cards of every vendor, and what is written."""
        node = decision.node
        if node is None:
            return Ruling(decision, {})
        placed = dict.fromkeys(demands, decision)
        if len(demands) > 1:
            placed = {
                word: self._ask(word, demand, (node,), headrooms, explain=False) for word, demand in demands.items()
            }
        extras: dict[str, str] = {}
        for word, demand in demands.items():
            profile = self.deciders[word].profile
            if profile.write.extra or profile.write.annotate:
                extras |= annotate(self._tell(node, demand, placed[word], word), profile)
        return Ruling(
            decision,
            {word: one.shares for word, one in placed.items()},
            tuple(part for one in placed.values() for part in one.instances),
            extras or NOTHING_ELSE,
        )

    def _tell(self, node: str, demand: Demand, decision: Decision, word: str) -> Decided:
        registered = self.fleet.registered(node, word)
        if registered is None:
            raise ValueError(f"node {node} has no cards of {word}")
        return Decided(
            node=node,
            shares=decision.shares,
            names=tuple(container.name for container in demand.containers),
            requests=tuple(container.request for container in demand.containers),
            first_regular=sum(container.phase is not Phase.REGULAR for container in demand.containers),
            cards={card.id: card for card in registered.cards},
            facts=registered.facts,
        )


_TOO_FEW = refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)


def _add_up(fleet: Fleet, answers: Mapping[str, Decision]) -> dict[str, float]:
    """Return the score of every node: that of all its cards, and what each vendor adds."""
    scores: dict[str, float] = {}
    for word, answer in answers.items():
        table = fleet[word].table
        for name, score in answer.fitting.worst_first():
            own = float(table.node_scores[table.positions[name]])
            scores[name] = scores.get(name, own) + (score - own)
    return scores
