"""Deciding over the cards of one vendor, and remembering verdicts between decisions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpuloom.engine.assessment import Assessment
from gpuloom.engine.candidates import Candidates, look_up, look_up_among
from gpuloom.engine.cluster import Cluster
from gpuloom.engine.decision import Decision
from gpuloom.engine.demand import Demand
from gpuloom.engine.family import Family, make_family
from gpuloom.engine.hooked import HookedVerdicts
from gpuloom.engine.nameindex import NameIndex
from gpuloom.engine.options import Options
from gpuloom.engine.query import Query
from gpuloom.engine.rules import RuleOrder
from gpuloom.engine.told import Told
from gpuloom.engine.verdicts import VerdictMemory, Verdicts
from gpuloom.model.want import UNBOUNDED, Headroom
from gpuloom.vendors.profile import Profile
from gpuloom.wire.nodenames import NodeNames


@dataclass(slots=True)
class Decider:
    """Decides over one cluster, for one vendor's cards, and remembers verdicts between decisions."""

    cluster: Cluster
    profile: Profile
    options: Options
    rules: RuleOrder
    memory: VerdictMemory = field(init=False)
    family: Family = field(init=False)
    index: NameIndex = field(init=False)
    told: Told = field(default_factory=Told)

    def __post_init__(self) -> None:
        self.index = NameIndex(self.cluster.table.names)
        self.family = make_family(self.profile, self.options, self.rules)
        self.memory = self._fresh_memory()

    def prepare(self) -> None:
        """Do what the first decision after very many changes would have to wait for."""
        self.cluster.table.score_changed()
        self.index.refresh()

    def look_up(self, names: Sequence[str]) -> Candidates:
        """Find nodes by their names; the order breaks ties."""
        return look_up(self.cluster.table, names)

    def decide(
        self, demand: Demand, candidates: Candidates, *, explain: bool = False, headroom: Headroom | None = None
    ) -> Decision:
        """Choose node and cards for a pod; with ``explain`` every refusal is told even if a node fits.

        ``headroom`` is what the quota leaves, for questions of the kind "what if"; otherwise it is as it is.
        Raises ValueError when the demand asks for no card: such a pod needs no decision.
        """
        headroom = self.headroom(demand) if headroom is None else headroom
        return self._ask(demand, headroom).answer(candidates, explain=explain)

    def decide_among(self, demand: Demand, names: NodeNames, *, most_tries: int | None = None) -> Decision:
        """Choose as :meth:`decide` does, among nodes as a call names them; large lists are not read before the answer.

        Raises ValueError when the demand asks for no card, UnsettledError when so many nodes were tried in vain.
        """
        query = self._ask(demand, self.headroom(demand), most_tries)
        decision = query.search(names) if names.is_searchable else None
        if decision is None:
            decision = query.answer(look_up_among(self.cluster.table, self.index, names), explain=False)
        return decision

    def assess(self, demand: Demand, headroom: Headroom | None = None, *, most_tries: int | None = None) -> Assessment:
        """Tell of all nodes whether a pod fits there, as far as this vendor's cards go.

        Raises ValueError when the demand asks for no card, UnsettledError when more nodes than that must be tried.
        """
        return self._ask(demand, self.headroom(demand) if headroom is None else headroom, most_tries).assess()

    def has_room(self, demand: Demand) -> bool:
        """Tell whether any node would do, without saying which or why the others would not.

        Raises ValueError when the demand asks for no card.
        """
        return self._ask(demand, self.headroom(demand)).has_room()

    def try_nodes(self, demand: Demand) -> Iterator[None]:
        """Try a pod of several containers on all nodes that may take it, a few of them between two steps.

        What they say is remembered, so that questions about such pods are answered quickly; of other pods there is
        nothing to be tried. Raises ValueError when the demand asks for no card.
        """
        return self._ask(demand, self.headroom(demand)).try_nodes()

    def _ask(self, demand: Demand, headroom: Headroom, most_tries: int | None = None) -> Query:
        return Query(self.family, self.cluster.table, self.memory, self.index, self.told, demand, headroom, most_tries)

    def _fresh_memory(self) -> VerdictMemory:
        make = HookedVerdicts if self.family.is_hooked else Verdicts
        return VerdictMemory(self.family, self.options.device_score_slots, make)

    def headroom(self, demand: Demand) -> Headroom:
        """Return what the quotas of a pod's namespace leave of this vendor's cards."""
        if not self.cluster.quotas.limits(demand.namespace):
            return UNBOUNDED
        if self.options.quota_in_fit == "hami" and not self.profile.fit.hami_quota:
            return UNBOUNDED
        used = self.cluster.ledger.namespace_usage(demand.namespace, self.profile.word)
        return self.cluster.quotas.headroom(demand.namespace, self.profile, used)
