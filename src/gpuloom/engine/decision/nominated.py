"""Decisions with respect for nominations (:mod:`gpuloom.engine.state.nominations`).

Nodes with a nomination are few. A pod is decided about as always, from what is remembered; only when that gives it such
a node, the node is asked again on a fork in which the nominated pods are placed (``kept_nodes``). So a node that would
not take a pod anyway says why, whoever waits there.
"""

from collections.abc import Generator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import msgspec

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.kept_nodes import KeptNode, KeptNodes
from gpuloom.engine.decision.offer import NodeOffer, make_offer
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.decision.taking_over import takes_over
from gpuloom.engine.placement.placement_cache import demand_class_of
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.state.nominations import Nomination, Nominations
from gpuloom.model.refusal import Refusal
from gpuloom.wire.nodenames import NodeNames


@dataclass(frozen=True, slots=True)
class NominationScheduler:
    """Decides as ``pod_scheduler`` does, and leaves nominated pods their room.

    terminating  UIDs of pods that are being deleted
    """

    pod_scheduler: PodScheduler
    nominations: Nominations
    terminating: AbstractSet[str]
    kept: KeptNodes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kept", KeptNodes(self.pod_scheduler, self.terminating))

    def decide_among(
        self, demands: Demands, names: NodeNames, priority: int, *, most_tries: int | None = None
    ) -> Decision:
        """Choose node and cards; a nominated pod gets its node if that takes it and is among the names.

        Raises what :meth:`PodScheduler.decide_among` raises.
        """
        decision = self._decide_among(demands, names, priority, most_tries)
        own = self.nominations.find(_uid_of(demands))
        # Mostly no node takes a nominated pod yet.
        if decision.node is None or own is None or not names.has(own.node):
            return decision
        if not self.takes(demands, own.node, priority):
            return decision
        decision.abandon()
        return self._decide_among(demands, _name([own.node]), priority, most_tries)

    def decide_on(self, demands: Demands, node: str, priority: int) -> Decision:
        """Choose cards on a node that somebody else chose; the refusals say why it does not take the pod.

        Raises what :meth:`PodScheduler.decide` raises.
        """
        decision = self.pod_scheduler.decide(demands, (node,))
        kept = {} if decision.node is None else self._find_kept(demands, priority, node)
        return kept[node].decide(demands, demand_class_of(demands)) if kept else decision

    def takes(self, demands: Demands, node: str, priority: int) -> bool:
        """Tell whether a node takes a pod as it is now; of pods that ask alike it is asked once.

        Raises what :meth:`PodScheduler.decide` raises.
        """
        kept, asked = self._find_kept(demands, priority, node).get(node), demand_class_of(demands)
        if kept is not None and kept.find_refusal(asked) is not None:
            return False
        return self.pod_scheduler.takes(demands, node) and (
            kept is None or kept.decide(demands, asked).node is not None
        )

    def bring_up(self, demands: Demands, node: str, priority: int) -> Generator[None, None, None]:
        """Bring up in steps what is remembered of a node on which others wait: who asks then is told at once."""
        for kept in self._find_kept(demands, priority, node).values():
            yield from kept.bring_up_in_steps()

    def takes_over(self, demands: Demands, chosen: Reservation, priority: int) -> bool:
        """Tell whether a pod gets the very cards that another scheduler chose, and leaves others there their room."""
        if not takes_over(self.pod_scheduler, demands, chosen):
            return False
        kept = self._find_kept(demands, priority, chosen.node).get(chosen.node)
        return kept is None or kept.takes_over(demands, chosen)

    def keeps_room(self, demands: Demands, node: str, priority: int) -> bool:
        """Tell whether nothing but others who wait there for their room keeps a pod from a node."""
        return self.pod_scheduler.takes(demands, node) and not self.takes(demands, node, priority)

    def offer(
        self, demands: Demands, decision: Decision, chosen: str, priority: int, *, most_tries: int | None = None
    ) -> NodeOffer:
        """Return all nodes that take a pod about which was just decided, but those that others are to have.

        chosen  the node that was decided for
        Raises what :meth:`PodScheduler.rank_fitting` raises.
        """
        ranking = self.pod_scheduler.rank_fitting(demands, decision, most_tries=most_tries)
        offer = make_offer(ranking, chosen)
        kept, asked = self._find_kept(demands, priority), demand_class_of(demands)
        open_to_ask = kept.keys() & offer.keys() - {chosen}
        refusing = {node for node in open_to_ask if kept[node].decide(demands, asked).node is None}
        return {node: grade for node, grade in offer.items() if node not in refusing}

    def find_capacity(self, demands: Demands, priority: int) -> Generator[None, None, bool]:
        """Tell whether any node would do, in steps, as of the last one; a node on which others wait takes several."""
        if not self.pod_scheduler.has_capacity(demands):
            return False
        kept, asked = self._find_kept(demands, priority), demand_class_of(demands)
        if not kept:
            return True
        for node, one in kept.items():
            if self.pod_scheduler.takes(demands, node) and one.find_refusal(asked) is None:
                yield from one.bring_up_in_steps()
                # Between steps nodes change, and so does who waits there.
                if self.takes(demands, node, priority):
                    return True
                yield
        names = _name(list(self.pod_scheduler.cluster_state.nodes))
        return self._decide_among(demands, names, priority, None).node is not None

    def would_fit(self, nomination: Nomination) -> bool:
        """Tell whether a nominated pod would fit on its node if all had left that are to leave."""
        return self.imagine(nomination) is not None

    def bring_up_with(self, nomination: Nomination) -> Generator[None, None, None]:
        """Bring up in steps a nominated pod's node: whether it would fit there is told at once then."""
        if (kept := self._keep_with(nomination)) is not None:
            yield from kept.bring_up_in_steps()

    def wait_beside(self, demands: Demands, node: str, priority: int) -> frozenset[str] | None:
        """Return who has to leave a node for others beside whom a pod fits then; None where it would not fit."""
        if not self.pod_scheduler.cluster_state.has(node):
            return None
        others = [one for one in self.nominations.that_bind(_uid_of(demands), priority) if one.node == node]
        kept = self.kept.find({node: others}, demands)[node]
        if not kept.takes_later(demands, demand_class_of(demands)):
            return None
        return frozenset[str]().union(*(one.victims for one in others))

    def beside_waiting(self, demands: Demands, priority: int) -> PodScheduler:
        """Return what decides as if all had their room who wait for it before a pod; the live one where nobody does."""
        kept = self._find_kept(demands, priority)
        if not kept:
            return self.pod_scheduler
        fork = self.pod_scheduler.fork()
        for node in kept.values():
            for held in node.imagine_all():
                fork.cluster_state.assume(held)
        return fork

    def imagine(self, nomination: Nomination) -> Reservation | None:
        """Return what a nominated pod would hold on its node if all had left that are to leave; None without room."""
        kept = self._keep_with(nomination)
        return None if kept is None else kept.imagine(nomination.uid)

    def _keep_with(self, nomination: Nomination) -> KeptNode | None:
        """Return a pod's node with the pod placed, and those that go before it; None without the node."""
        node = nomination.node
        if not self.pod_scheduler.cluster_state.has(node):
            return None
        others = self.nominations.that_bind(nomination.uid, nomination.priority)
        there = [*(one for one in others if one.node == node), nomination]
        return self.kept.find({node: there}, nomination.demands)[node]

    def _decide_among(self, demands: Demands, names: NodeNames, priority: int, most_tries: int | None) -> Decision:
        """Decide, and ask nodes on which others wait whether they take the pod beside those, best first."""
        kept = self._find_kept(demands, priority)
        if not kept:
            return self.pod_scheduler.decide_among(demands, names, most_tries=most_tries)
        closed, asked = dict[str, Refusal](), demand_class_of(demands)
        for node, one in kept.items():
            if refusal := one.find_refusal(asked):
                closed[node] = refusal
        decision = self.pod_scheduler.decide_among(demands, names, most_tries=most_tries, closed=closed)
        while decision.node in kept:
            node = decision.node
            placed = kept[node].decide(demands, asked)
            if placed.node is not None:
                return msgspec.structs.replace(
                    decision, shares=placed.shares, instances=placed.instances, extras=placed.extras
                )
            closed = {**closed, node: placed.refusals[node]}
            decision.abandon()
            decision = self.pod_scheduler.decide_among(demands, names, most_tries=most_tries, closed=closed)
        return decision

    def _find_kept(self, demands: Demands, priority: int, node: str | None = None) -> dict[str, KeptNode]:
        """Return the nodes on which others wait that go before this pod and hold nothing yet: all, or only one."""
        # Nearly always there are none, and every call asks.
        if not self.nominations:
            return {}
        cluster = self.pod_scheduler.cluster_state
        by_node: dict[str, list[Nomination]] = {}
        for one in self.nominations.that_bind(_uid_of(demands), priority):
            if node in (None, one.node) and cluster.has(one.node) and cluster.ledger.find(one.uid) is None:
                by_node.setdefault(one.node, []).append(one)
        return self.kept.find(by_node, demands) if by_node else {}


def _uid_of(demands: Demands) -> str:
    return next(iter(demands.values())).uid


def _name(names: Sequence[str]) -> NodeNames:
    return NodeNames(msgspec.json.encode(names))
