"""Placing one pod on one node, the quick way where the verdicts on single cards tell enough."""

from dataclasses import dataclass

from gpuloom.engine.bench import Bench
from gpuloom.engine.demand import Demand
from gpuloom.engine.family import Family
from gpuloom.engine.need import Particular, make_want
from gpuloom.engine.options import ScoreSlots
from gpuloom.engine.placement import Container, Placement, Placer, Unplaced, place_plain
from gpuloom.engine.table import CardTable
from gpuloom.engine.verdicts import Verdicts
from gpuloom.model.request import Request
from gpuloom.model.share import ContainerShares
from gpuloom.model.want import UNBOUNDED, Headroom, Want


@dataclass(slots=True)
class Giver:
    """Gives cards of one vendor to one pod; the table stays as it is."""

    family: Family
    table: CardTable
    demand: Demand
    headroom: Headroom
    score_slots: ScoreSlots

    def give(self, position: int, verdicts: Verdicts) -> Placement | Unplaced:
        """Place the pod on a node of which the column tells that it fits."""
        choice, rows = self.demand.choice, self.table.rows_of(position)
        is_divided = self.table.has_divided(rows)
        if self.family.links_cards(choice) or self.family.is_hooked or is_divided:
            known = None if is_divided else self._give_known(position, rows, verdicts)
            return known or self.place(self.table.bench(position), weighs=False)
        wants, verdict = verdicts.wants(position, rows), verdicts.column[rows].tolist()
        keys = verdicts.sort_keys(self.table, position, choice.card_policy.order, choice.weights)
        return self._to_all(place_plain(self.family.profile.word, self.table.uuids[rows], wants, verdict, keys))

    def place(self, bench: Bench, *, weighs: bool = True) -> Placement | Unplaced:
        """Try the pod on one node; ``weighs`` if what the vendor adds to its score is not known yet."""
        containers = [
            Container(asked.phase, asked.request, self._ask(bench, asked.request) if asked.request else None)
            for asked in self.demand.containers
        ]
        return self._make_placer(weighs=weighs).place(bench, containers)

    def _give_known(self, position: int, rows: slice, verdicts: Verdicts) -> Placement | None:
        """Give the cards that were chosen when the node was judged; None where that is not remembered."""
        given = verdicts.recall_given(position, rows) if self.headroom == UNBOUNDED else None
        if given is None:
            return None
        return self._to_all(self._make_placer(weighs=False).share(self.table.bench(position), *given))

    def _to_all(self, shares: ContainerShares) -> Placement:
        """Give the shares to the containers that ask, of which there is one."""
        return Placement(tuple([shares if asked.request else () for asked in self.demand.containers]), ())

    def _make_placer(self, *, weighs: bool) -> Placer:
        return Placer(
            family=self.family,
            choice=self.demand.choice,
            selection=self.demand.selection,
            headroom=self.headroom,
            weighs=weighs,
        )

    def _ask(self, bench: Bench, request: Request) -> Want:
        is_particular = self.family.is_particular
        return make_want(
            bench.cards,
            bench.uuids,
            self.table.kinds,
            request,
            self.demand.selection,
            mutex=self.demand.choice.card_policy.mutex,
            headroom=UNBOUNDED,
            score_slots=self.score_slots,
            divided=bool(bench.partitions),
            particular=Particular(self.family, (bench.facts,), None, self.table.number) if is_particular else None,
        )
