"""The decision for a pod that may ask several vendors: one question to each, one answer (scheduler 6.1, vendors 0.3).

Cards of different vendors do not know each other, so a node takes the pod when each vendor's cards there do
(``vendor_intersection``). What they share is the node's score, which is of all of its cards.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpuloom.engine.decision.annotations import annotate
from gpuloom.engine.decision.attempt import NOT_CLOSED
from gpuloom.engine.decision.decision import Decision, UnsettledError
from gpuloom.engine.decision.shared_quotas import share_headrooms
from gpuloom.engine.decision.vendor_intersection import TOO_FEW, VendorIntersection
from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.filtering.compiled_profile import CompiledProfile, compile_profile
from gpuloom.engine.placement.placement_cache import PlacementCaches
from gpuloom.engine.request.demand import ContainerType, Demand, Demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.scoring.ranking import Ranking
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import NOTHING_ELSE, Reservation
from gpuloom.model.refusal import Refusal
from gpuloom.model.request_columns import UNBOUNDED, Headroom
from gpuloom.model.share import ContainerShares
from gpuloom.vendors.decided import Decided
from gpuloom.wire.nodenames import NodeNames


@dataclass
class PodScheduler:
    """Decides over the cards of all vendors. What profiles name is looked up once for a cluster and its forks."""

    cluster_state: ClusterState
    options: Options
    _compiled: dict[str, CompiledProfile] = field(default_factory=dict)
    _placed: Mapping[str, PlacementCaches] = field(default_factory=dict)

    @cached_property
    def by_vendor(self) -> Mapping[str, VendorScheduler]:
        """What decides over the cards of each vendor, made when it is first asked for: forks ask few."""
        return _VendorSchedulers(self.cluster_state, self.options, self._compiled, self._placed)

    def fork(self, nodes: Collection[str] | None = None, also: Iterable[str] = ()) -> "PodScheduler":
        """Return one that decides in the same way over a fork of the cluster; see :meth:`ClusterState.fork`.

        Of all nodes it knows, too, which took pods of several containers.
        """
        fork = PodScheduler(self.cluster_state.fork(nodes, also), self.options, self._compiled)
        if nodes is None:
            fork._placed = {word: one.placement_caches.fork(one.state.table) for word, one in self.by_vendor.items()}
        return fork

    def prepare(self) -> None:
        """Do what the first decision after very many changes would have to wait for."""
        for profile in self.cluster_state.catalog:
            self.by_vendor[profile.word].prepare()

    def decide(
        self,
        demands: Demands,
        names: Sequence[str],
        *,
        explain: bool = False,
        headrooms: Mapping[str, Headroom] | None = None,
    ) -> Decision:
        """Choose node and cards for a pod; with ``explain`` every refusal is found out even if a node fits.

        names      of the nodes to choose from; the order breaks ties
        headrooms  what quotas leave of each vendor's cards, where that is not what is known here
        Raises ValueError when the demands ask for no card: such a pod needs no decision.
        """
        if not demands:
            raise ValueError("the pod asks for no card")
        headrooms = self._share(demands, headrooms)
        if len(demands) == 1:
            word, demand = next(iter(demands.items()))
            decision = self._ask(word, demand, names, headrooms, explain=explain)
        else:
            decision = self._join(demands, headrooms).answer(names, explain=explain)
        return self._complete(decision, demands, headrooms)

    def decide_in_steps(
        self, demands: Demands, names: Sequence[str], headrooms: Mapping[str, Headroom] | None = None
    ) -> Generator[None, None, Decision]:
        """Find out in steps what :meth:`decide` does with ``explain``, as of the last of them."""
        yield from self.place_ahead(demands, headrooms)
        yield
        return self.decide(demands, names, explain=True, headrooms=headrooms)

    def decide_among(
        self,
        demands: Demands,
        names: NodeNames,
        *,
        most_tries: int | None = None,
        closed: Mapping[str, Refusal] = NOT_CLOSED,
    ) -> Decision:
        """Choose as :meth:`decide` does, among nodes as a call names them; large lists are not read before the answer.

        closed  nodes that do not take the pod whatever their cards say, and why
        Raises ValueError when the demands ask for no card, UnsettledError when the pod was placed on ``most_tries``
        nodes in vain.
        """
        if not demands:
            raise ValueError("the pod asks for no card")
        if len(demands) > 1:
            headrooms = self._share(demands)
            decision = self._decide_jointly(demands, headrooms, names, most_tries, closed)
            return self._complete(decision, demands, headrooms)
        word, demand = next(iter(demands.items()))
        decision = self.by_vendor[word].decide_among(demand, names, most_tries=most_tries, closed=closed)
        self._know_other_vendors(word, decision)
        return self._complete(decision, demands, {})

    def rank_fitting(self, demands: Demands, decision: Decision, *, most_tries: int | None = None) -> Ranking:
        """Rank all nodes that take a pod about which was just decided; none of them has still to be asked.

        Raises UnsettledError when more than ``most_tries`` nodes have not answered.
        """
        if decision.is_complete:
            return decision.fitting
        # Cards of several vendors are always decided about to the end.
        ((word, demand),) = demands.items()
        return decision.fitting.only(self.by_vendor[word].assess(demand, most_tries=most_tries).takes)

    def _decide_jointly(
        self,
        demands: Demands,
        headrooms: Mapping[str, Headroom],
        names: NodeNames,
        most_tries: int | None,
        closed: Mapping[str, Refusal],
    ) -> Decision:
        """Decide about cards of several vendors: on one node, which all of them have to take."""
        try:
            intersection = self._join(demands, headrooms, most_tries)
        except UnsettledError as error:
            # One vendor has more nodes to try; the others may have as well.
            raise UnsettledError(self.place_ahead(demands)) from error
        left = names.without(closed) if closed else names
        decision = intersection.search(left) if left.is_searchable else None
        if decision is None:
            decision = intersection.answer(left.all(), explain=False)
            if decision.node is None:
                decision.refusals.update((node, closed[node]) for node in closed if names.has(node))
        return decision

    def _share(self, demands: Demands, asked: Mapping[str, Headroom] | None = None) -> Mapping[str, Headroom]:
        """Return what quotas leave of each vendor's cards, where that is not what is known here of each by itself.

        asked  the same, where the question is what would be under another quota
        """
        if len(demands) < 2:
            return asked or {}
        return share_headrooms(demands, asked or {}, self.by_vendor, self.cluster_state.quotas)

    def _join(
        self, demands: Demands, headrooms: Mapping[str, Headroom], most_tries: int | None = None
    ) -> VendorIntersection:
        policy = next(iter(demands.values())).preferences.node_policy
        assessments = {
            word: self.by_vendor[word].assess(demand, headrooms.get(word), most_tries=most_tries)
            for word, demand in demands.items()
        }
        return VendorIntersection(self.cluster_state, assessments, policy)

    def has_capacity(self, demands: Demands) -> bool:
        """Tell whether any node would do, without saying which or why the others would not."""
        if len(demands) != 1:
            return bool(demands) and self.decide(demands, tuple(self.cluster_state.nodes)).node is not None
        ((word, demand),) = demands.items()
        return self.by_vendor[word].has_capacity(demand)

    def takes(self, demands: Demands, node: str) -> bool:
        """Tell whether a node would do, without choosing its cards or saying why they do not.

        Raises ValueError when a demand asks for no card.
        """
        headrooms = self._share(demands)
        return bool(demands) and all(
            self.by_vendor[word].has_capacity(demand, node, headrooms.get(word)) for word, demand in demands.items()
        )

    def find_taking(
        self, demands: Demands, headrooms: Mapping[str, Headroom] | None = None
    ) -> Generator[None, None, frozenset[str]]:
        """Return the nodes that take a pod, in steps, without choosing among them or saying why others do not.

        headrooms  what quotas leave of each vendor's cards, where that is not what is known here
        Raises ValueError when a demand asks for no card.
        """
        yield from self.place_ahead(demands, headrooms)
        headrooms = self._share(demands, headrooms)
        taking: frozenset[str] | None = None
        for word, demand in demands.items():
            one = self.by_vendor[word].assess(demand, headrooms.get(word))
            names = frozenset([one.table.names[place] for place in np.flatnonzero(one.takes).tolist()])
            taking = names if taking is None else taking & names
        return taking or frozenset()

    def place_ahead(self, demands: Demands, headrooms: Mapping[str, Headroom] | None = None) -> Iterator[None]:
        """Try nodes ahead of a question, a few of them between two steps; see :meth:`VendorScheduler.place_ahead`."""
        headrooms = self._share(demands, headrooms)
        for word, demand in demands.items():
            yield from self.by_vendor[word].place_ahead(demand, headrooms.get(word))

    def is_limited(self, demands: Demands) -> bool:
        """Tell whether a quota limits the pod: what it leaves changes with pods on any node."""
        # Of each pod that waits for its room every call asks, and few namespaces have quotas.
        if not any(self.cluster_state.quotas.limits(demand.namespace) for demand in demands.values()):
            return False
        return any(self.by_vendor[word].headroom(demand) != UNBOUNDED for word, demand in demands.items())

    def find_freeing(self, demands: Demands, uids: Iterable[str]) -> list[Reservation]:
        """Return what those of some pods hold that leave a pod quota when they go, whichever node they are on."""
        if not self.is_limited(demands):
            return []
        namespace, ledger = next(iter(demands.values())).namespace, self.cluster_state.ledger
        held = [one for uid in uids if (one := ledger.find(uid)) is not None]
        return [one for one in held if one.namespace == namespace]

    def _know_other_vendors(self, word: str, decision: Decision) -> None:
        """Tell nodes that have cards of other vendors only from those that have none: they are known."""
        if decision.refusals and self.cluster_state.has_others(word):
            mine = self.cluster_state[word].table.positions
            others = [name for name in decision.refusals if name not in mine and self.cluster_state.has(name)]
            decision.refusals.update(dict.fromkeys(others, TOO_FEW))

    def simulate(self, demands: Demands, nodes: Mapping[str, Mapping[str, NodeCards]]) -> Decision:
        """Decide as if these were the nodes and nothing on them were used; quotas count as they are (scheduler 4.8)."""
        fork = self.fork(())
        for name, by_vendor in nodes.items():
            for word, registered in by_vendor.items():
                fork.cluster_state.register(name, word, registered)
        return fork.decide(demands, tuple(nodes), explain=True)

    def _ask(
        self, word: str, demand: Demand, names: Sequence[str], headrooms: Mapping[str, Headroom], *, explain: bool
    ) -> Decision:
        scheduler = self.by_vendor[word]
        candidates = scheduler.look_up(names)
        decision = scheduler.decide(demand, candidates, explain=explain, headroom=headrooms.get(word))
        self._know_other_vendors(word, decision)
        return decision

    def _complete(self, decision: Decision, demands: Demands, headrooms: Mapping[str, Headroom]) -> Decision:
        """Add what a node means for the pod: its cards of every vendor, and what is written."""
        node = decision.node
        if node is None:
            return decision
        if len(demands) > 1:
            placed = [self._ask(word, demand, (node,), headrooms, explain=False) for word, demand in demands.items()]
            decision.shares = {word: shares for one in placed for word, shares in one.shares.items()}
            decision.instances = tuple(part for one in placed for part in one.instances)
        extras: dict[str, str] = {}
        for word, demand in demands.items():
            profile = self.by_vendor[word].profile
            if profile.write.extra or profile.write.annotate:
                extras |= annotate(self._describe_decided(node, demand, decision.shares[word], word), profile)
        decision.extras = extras or NOTHING_ELSE
        return decision

    def _describe_decided(self, node: str, demand: Demand, shares: tuple[ContainerShares, ...], word: str) -> Decided:
        """Return what hooks that annotate pods see of a decision, for one vendor's cards."""
        registered = self.cluster_state.registered(node, word)
        if registered is None:
            raise ValueError(f"node {node} has no cards of {word}")
        return Decided(
            node=node,
            shares=shares,
            names=tuple(container.name for container in demand.containers),
            requests=tuple(container.request for container in demand.containers),
            first_regular=sum(container.type is not ContainerType.REGULAR for container in demand.containers),
            cards={card.id: card for card in registered.cards},
            facts=registered.facts,
        )


class _VendorSchedulers(dict[str, VendorScheduler]):
    def __init__(
        self,
        cluster_state: ClusterState,
        options: Options,
        compiled: dict[str, CompiledProfile],
        placed: Mapping[str, PlacementCaches],
    ) -> None:
        super().__init__()
        self._state, self._options, self._compiled, self._placed = cluster_state, options, compiled, placed

    def __missing__(self, word: str) -> VendorScheduler:
        if word not in self._compiled:
            self._compiled[word] = compile_profile(self._state.catalog[word], self._options)
        made = self[word] = VendorScheduler(self._state[word], self._compiled[word], self._options)
        if word in self._placed:
            made.placement_caches = self._placed[word]
        return made
