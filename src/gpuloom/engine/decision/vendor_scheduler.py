"""Scheduling over the cards of one vendor, and what is remembered between attempts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuloom.engine.decision.assessment import Assessment
from gpuloom.engine.decision.attempt import NOT_CLOSED, SchedulingAttempt
from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.filtering.candidates import Candidates, look_up, look_up_among
from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.filtering.filter_cache import FilterCache
from gpuloom.engine.filtering.refusal_cache import RefusalCache
from gpuloom.engine.placement.placement_cache import PlacementCaches
from gpuloom.engine.request.demand import Demand
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.vendor_state import VendorState
from gpuloom.model.refusal import Refusal
from gpuloom.model.request_columns import UNBOUNDED, Headroom
from gpuloom.vendors.profile import Profile
from gpuloom.wire.nodeindex import NameIndex
from gpuloom.wire.nodenames import NodeNames


@dataclass(slots=True)
class VendorScheduler:
    """Decides which node and which of one vendor's cards a pod gets.

    Three things are remembered between attempts: what the rules say (by equivalence class), which nodes take pods of
    several containers (by placement class), and why no node served. None of them outlives a change of a node unseen.
    """

    state: VendorState
    compiled: CompiledProfile
    options: Options
    filter_cache: FilterCache = field(init=False)
    index: NameIndex = field(init=False)
    placement_caches: PlacementCaches = field(default_factory=PlacementCaches)
    refusal_cache: RefusalCache = field(default_factory=RefusalCache)

    def __post_init__(self) -> None:
        self.index = NameIndex(self.state.table.names)
        self.filter_cache = FilterCache(self.compiled)

    @property
    def profile(self) -> Profile:
        """The vendor."""
        return self.compiled.profile

    def prepare(self) -> None:
        """Do what the first decision after very many changes would have to wait for."""
        table = self.state.table
        table.score_changed()
        self.index.follow(table.names, table.namings)

    def forget_all(self) -> None:
        """Forget what is remembered between attempts; the next ones look at all cards again."""
        self.filter_cache.forget_all()
        self.placement_caches.forget_all()

    def look_up(self, names: Sequence[str]) -> Candidates:
        """Find nodes by their names; the order breaks ties."""
        return look_up(self.state.table, names)

    def decide(
        self, demand: Demand, candidates: Candidates, *, explain: bool = False, headroom: Headroom | None = None
    ) -> Decision:
        """Choose node and cards for a pod; with ``explain`` every refusal is found out even if a node fits.

        ``headroom`` is what the quota leaves, for questions of the kind "what if"; otherwise it is as it is.
        Raises ValueError when the demand asks for no card: such a pod needs no decision.
        """
        return self._attempt(demand, headroom).answer(candidates, explain=explain)

    def decide_among(
        self,
        demand: Demand,
        names: NodeNames,
        *,
        most_tries: int | None = None,
        closed: Mapping[str, Refusal] = NOT_CLOSED,
    ) -> Decision:
        """Choose as :meth:`decide` does, among nodes as a call names them; large lists are not read before the answer.

        closed  nodes that do not take the pod whatever their cards say, and why
        Raises ValueError when the demand asks for no card, UnsettledError when the pod was placed on
        ``most_tries`` nodes in vain.
        """
        attempt = self._attempt(demand, None, most_tries, closed)
        decision = attempt.search(names) if names.is_searchable else None
        if decision is None:
            decision = attempt.answer(look_up_among(self.state.table, self.index, names), explain=False)
        return decision

    def assess(self, demand: Demand, headroom: Headroom | None = None, *, most_tries: int | None = None) -> Assessment:
        """Tell of all nodes whether a pod fits there, as far as this vendor's cards go.

        Raises ValueError when the demand asks for no card, UnsettledError when more than ``most_tries`` nodes
        have not answered.
        """
        return self._attempt(demand, headroom, most_tries).assess()

    def has_capacity(self, demand: Demand, node: str | None = None, headroom: Headroom | None = None) -> bool:
        """Tell whether any node would do, or the one that is named, without saying which or why others would not.

        Raises ValueError when the demand asks for no card.
        """
        return self._attempt(demand, headroom).has_capacity(node)

    def place_ahead(self, demand: Demand, headroom: Headroom | None = None) -> Iterator[None]:
        """Try a pod of several containers on all nodes that may take it, a few of them between two steps.

        What they say is remembered, so that questions about such pods are answered quickly; of other pods there is
        nothing to be tried. Raises ValueError when the demand asks for no card.
        """
        return self._attempt(demand, headroom).place_ahead()

    def _attempt(
        self,
        demand: Demand,
        headroom: Headroom | None = None,
        most_tries: int | None = None,
        closed: Mapping[str, Refusal] = NOT_CLOSED,
    ) -> SchedulingAttempt:
        """Begin an attempt; ``headroom`` is what the quota leaves, where that is not as it is known here."""
        return SchedulingAttempt(
            compiled=self.compiled,
            table=self.state.table,
            filter_cache=self.filter_cache,
            placement_caches=self.placement_caches,
            refusal_cache=self.refusal_cache,
            index=self.index,
            demand=demand,
            headroom=self.headroom(demand) if headroom is None else headroom,
            most_tries=most_tries,
            closed=closed,
        )

    def headroom(self, demand: Demand, fork: VendorState | None = None) -> Headroom:
        """Return what the quotas of a pod's namespace leave of this vendor's cards, or would in a fork."""
        state = fork or self.state
        if not state.quotas.limits(demand.namespace):
            return UNBOUNDED
        if self.options.quota_in_fit == "hami" and not self.profile.fit.hami_quota:
            return UNBOUNDED
        return state.quotas.headroom(demand.namespace, self.profile, state.ledger)
