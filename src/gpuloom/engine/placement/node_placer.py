"""Placing one pod on one node, the quick way where single cards decide."""

from dataclasses import dataclass

from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.filtering.filter_results import FilterResults
from gpuloom.engine.filtering.request_columns import VendorAdjustments, make_request_columns
from gpuloom.engine.placement.container_placer import ContainerPlacer, PlacedContainer, Placement, Unplaced, place_plain
from gpuloom.engine.request.demand import Demand
from gpuloom.engine.request.options import ScoreSlots
from gpuloom.engine.state.card_table import CardTable
from gpuloom.engine.state.node_copy import NodeCopy
from gpuloom.model.request import Request
from gpuloom.model.request_columns import UNBOUNDED, Headroom, RequestColumns
from gpuloom.model.share import ContainerShares


@dataclass(slots=True)
class NodePlacer:
    """Gives cards of one vendor to one pod; the table stays as it is."""

    compiled: CompiledProfile
    table: CardTable
    demand: Demand
    headroom: Headroom
    score_slots: ScoreSlots

    def place_fitting(self, position: int, results: FilterResults) -> Placement | Unplaced:
        """Place the pod on a node of which the column tells that it fits."""
        policy, rows = self.demand.policy, self.table.rows_of(position)
        is_divided = self.table.has_divided(rows)
        if self.compiled.links_cards(policy) or self.compiled.is_hooked or is_divided:
            known = None if is_divided else self._place_remembered(position, rows, results)
            return known or self.place(self.table.copy_node(position), scores_extra=False)
        requirements, codes = results.requirements(position, rows), results.column[rows].tolist()
        keys = results.sort_keys(self.table, position, policy.card_policy.order, policy.weights)
        return self._to_all(place_plain(self.compiled.profile.word, self.table.uuids[rows], requirements, codes, keys))

    def place(self, node: NodeCopy, *, scores_extra: bool = True) -> Placement | Unplaced:
        """Try the pod on one node; ``weighs`` if what the vendor adds to its score is not known yet."""
        containers = [
            PlacedContainer(asked.phase, asked.request, self._ask(node, asked.request) if asked.request else None)
            for asked in self.demand.containers
        ]
        return self._make_placer(scores_extra=scores_extra).place(node, containers)

    def _place_remembered(self, position: int, rows: slice, results: FilterResults) -> Placement | None:
        """Give the cards that were chosen when the node was filtered; None where that is not remembered."""
        given = results.recall_chosen(position, rows) if self.headroom == UNBOUNDED else None
        if given is None:
            return None
        return self._to_all(self._make_placer(scores_extra=False).share(self.table.copy_node(position), *given))

    def _to_all(self, shares: ContainerShares) -> Placement:
        """Give the shares to the containers that ask, of which there is one."""
        return Placement(tuple([shares if asked.request else () for asked in self.demand.containers]), ())

    def _make_placer(self, *, scores_extra: bool) -> ContainerPlacer:
        return ContainerPlacer(
            compiled=self.compiled,
            policy=self.demand.policy,
            selector=self.demand.selector,
            headroom=self.headroom,
            scores_extra=scores_extra,
        )

    def _ask(self, node: NodeCopy, request: Request) -> RequestColumns:
        adjusts_requests = self.compiled.adjusts_requests
        return make_request_columns(
            node.cards,
            node.uuids,
            self.table.kinds,
            request,
            self.demand.selector,
            mutex=self.demand.policy.card_policy.mutex,
            headroom=UNBOUNDED,
            score_slots=self.score_slots,
            divided=bool(node.partitions),
            adjustments=VendorAdjustments(self.compiled, (node.facts,), None, self.table.number)
            if adjusts_requests
            else None,
        )
