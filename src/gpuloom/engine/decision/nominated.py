"""Decisions with respect for nominations (:mod:`gpuloom.engine.state.nominations`).

Nodes with a nomination are few. A pod is decided about as always, from what is remembered; only when that gives it such
a node, those nodes are asked again on a fork in which the nominated pods are placed. What is remembered never depends
on nominations.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from gpuloom.engine.decision.imagined import imagine_reservation
from gpuloom.engine.decision.offer import NodeOffer, make_offer
from gpuloom.engine.decision.pod_scheduler import PodDecision, PodScheduler
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.state.nominations import Nomination, Nominations
from gpuloom.model.refusal import Refusal
from gpuloom.wire.nodenames import NodeNames


@dataclass(frozen=True, slots=True)
class NominationScheduler:
    """Decides as ``pod_scheduler`` does, and leaves nominated pods their room.

    is_leaving  tells of a UID whether that pod ends already
    """

    pod_scheduler: PodScheduler
    nominations: Nominations
    is_leaving: Callable[[str], bool]

    def decide_among(
        self, demands: Demands, names: NodeNames, priority: int, *, most_tries: int | None = None
    ) -> PodDecision:
        """Choose node and cards; a nominated pod gets its node if that takes it and is among the names.

        Raises what :meth:`PodScheduler.decide_among` raises.
        """
        own = self.nominations.find(_uid_of(demands))
        if own is not None and names.has(own.node):
            decision = self._decide_among(demands, _name([own.node]), priority, most_tries)
            if decision.node is not None:
                return decision
        return self._decide_among(demands, names, priority, most_tries)

    def decide_on(self, demands: Demands, node: str, priority: int) -> PodDecision:
        """Choose cards on a node that somebody else chose; the refusals say why it does not take the pod.

        Raises what :meth:`PodScheduler.decide` raises.
        """
        if node in self._bound_nodes(demands, priority):
            return self._fork_with_nominated((node,), demands, priority).decide(demands, (node,))
        return self.pod_scheduler.decide(demands, (node,))

    def offer(
        self, demands: Demands, decision: PodDecision, chosen: str, priority: int, *, most_tries: int | None = None
    ) -> NodeOffer:
        """Return all nodes that take a pod about which was just decided, but those that others are to have.

        chosen  the node that was decided for
        Raises what :meth:`PodScheduler.rank_fitting` raises.
        """
        ranking = self.pod_scheduler.rank_fitting(demands, decision, most_tries=most_tries)
        offer = make_offer(ranking, chosen)
        bound = [node for node in self._bound_nodes(demands, priority) if node != chosen and node in offer.nodes]
        if not bound:
            return offer
        closed = self._fork_with_nominated(bound, demands, priority).decide(demands, bound, explain=True).refusals
        return offer.without(closed)

    def has_capacity(self, demands: Demands, priority: int) -> bool:
        """Tell whether any node would do; for a nominated pod, whether its own would, or else any."""
        if not self.pod_scheduler.has_capacity(demands):
            return False
        if not self._bound_nodes(demands, priority):
            return True
        names = _name(list(self.pod_scheduler.cluster_state.nodes))
        return self._decide_among(demands, names, priority, None).node is not None

    def would_fit(self, nomination: Nomination) -> bool:
        """Tell whether a nominated pod would fit on its node if all had left that are to leave."""
        fork = self._fork((nomination.node,))
        for other in self.nominations.that_bind(nomination.uid, nomination.priority):
            if other.node == nomination.node:
                self._place(fork, other)
        return self._place(fork, nomination)

    def _decide_among(self, demands: Demands, names: NodeNames, priority: int, most_tries: int | None) -> PodDecision:
        decision = self.pod_scheduler.decide_among(demands, names, most_tries=most_tries)
        if decision.node is None or decision.node not in self._bound_nodes(demands, priority):
            return decision
        return self._keep_off(decision, demands, names, priority, most_tries)

    def _keep_off(
        self, decision: PodDecision, demands: Demands, names: NodeNames, priority: int, most_tries: int | None
    ) -> PodDecision:
        """Decide again about nodes on which others wait, as long as one of them is the best.

        The best is asked alone, because it mostly takes the pod; after that all of them are.
        """
        bound, closed = self._bound_nodes(demands, priority), dict[str, Refusal]()
        asked: Sequence[str] = [node for node in bound if node == decision.node]
        while decision.node is not None and decision.node in bound:
            fork = self._fork_with_nominated(asked, demands, priority)
            placed = fork.decide(demands, (decision.node,))
            if placed.node is not None:
                decision = PodDecision(decision.decision, placed.shares, placed.instances, placed.extras)
                break
            closed |= fork.decide(demands, asked, explain=True).refusals
            decision.decision.abandon()
            decision = self.pod_scheduler.decide_among(demands, names.without(closed), most_tries=most_tries)
            asked = [node for node in bound if node not in closed]
        if closed:
            # The refusals may be remembered for others, so they are never changed.
            own = {node: refusal for node, refusal in closed.items() if names.has(node)}
            decision.decision.refusals = {**decision.refusals, **own}
        return decision

    def _bound_nodes(self, demands: Demands, priority: int) -> Sequence[str]:
        """Return the nodes on which others wait that go before this pod and hold nothing yet."""
        bound = self.nominations.that_bind(_uid_of(demands), priority)
        if not bound:
            return ()
        cluster = self.pod_scheduler.cluster_state
        nodes = dict.fromkeys(one.node for one in bound if cluster.ledger.find(one.uid) is None)
        return [node for node in nodes if cluster.has(node)]

    def _fork_with_nominated(self, nodes: Sequence[str], demands: Demands, priority: int) -> PodScheduler:
        fork = self._fork(nodes)
        for one in self.nominations.that_bind(_uid_of(demands), priority):
            if one.node in nodes:
                self._place(fork, one)
        return fork

    def _fork(self, nodes: Sequence[str]) -> PodScheduler:
        return PodScheduler(self.pod_scheduler.cluster_state.fork(nodes), self.pod_scheduler.options)

    def _place(self, fork: PodScheduler, nomination: Nomination) -> bool:
        """Place a nominated pod on its node as if all had left that are to leave; who has not left stays beside it.

        Tells whether it has room there; where it has none it takes none.
        """
        state = fork.cluster_state
        if state.ledger.find(nomination.uid) is not None:
            return True
        leaving = [held for held in state.ledger.on_node(nomination.node) if self._leaves(held.uid, nomination)]
        _forget(state, leaving)
        decision = fork.decide(nomination.demands, (nomination.node,))
        for held in leaving:
            state.assume(held)
        if decision.node is not None:
            demand = next(iter(nomination.demands.values()))
            held = imagine_reservation(demand, decision.node, decision.shares, decision.instances, decision.extras)
            state.assume(held)
        return decision.node is not None

    def _leaves(self, uid: str, nomination: Nomination) -> bool:
        return uid in nomination.victims or self.is_leaving(uid)


def _uid_of(demands: Demands) -> str:
    return next(iter(demands.values())).uid


def _name(names: Sequence[str]) -> NodeNames:
    return NodeNames(msgspec.json.encode(names))


def _forget(state: ClusterState, held: Iterable[Reservation]) -> None:
    for one in held:
        state.forget(one.uid)
