"""Trying a pod on many nodes at once: a row for each node, its containers one after another.

What :class:`~gpuloom.engine.placement.Placer` does on one node is done here on columns, by the same rules and hooks.
Nodes where several cards must go together in a way that only a walk can find are left to it: NUMA groups, linked cards,
divided cards, a quota that is nearly used up.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from gpuloom.engine.dealing import choose, deal, make_terms, refuse, weigh
from gpuloom.engine.demand import PHASES_IN_ORDER_OF_PLACING, Demand, Phase
from gpuloom.engine.family import Family
from gpuloom.engine.need import Particular, make_want
from gpuloom.engine.options import ScoreSlots
from gpuloom.engine.placement import Unplaced, give_bits
from gpuloom.engine.policies import SPREAD
from gpuloom.engine.rules import ONLINE, Positions, judge
from gpuloom.engine.table import CardTable
from gpuloom.engine.tenants import sum_groups
from gpuloom.model.cards import Cards, Flags, Ints
from gpuloom.model.hands import NO_CARD, Chosen, Hands, Points
from gpuloom.model.nodecards import Facts
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.request import Request
from gpuloom.model.want import UNBOUNDED, Want

MOST_AT_ONCE = 128
"""So many nodes are tried in one step, which takes one to two milliseconds."""


@dataclass(slots=True)
class Tried:
    """What some nodes say to a pod, a row for each.

    takes     whether the node takes it
    extra     what the vendor adds to the node's score, of nodes that take it
    unplaced  why not and which container, by row, of the others
    """

    takes: Flags
    extra: Points
    unplaced: dict[int, Unplaced] = field(default_factory=dict)


@dataclass(slots=True)
class Bundle:
    """The cards of some nodes: as one list, and laid out with a row for each node.

    cells  where in the list each card of a row stands; ``there`` which cells are cards
    rows   of the table
    facts  what each node says of all its cards
    """

    cards: Cards
    rows: Ints
    cells: Ints
    there: Flags
    facts: list[Facts]

    @property
    def totals(self) -> Ints:
        """How many cards each node has."""
        return np.asarray(np.count_nonzero(self.there, axis=1), np.int64)


@dataclass(slots=True)
class Trial:
    """One pod on trial on many nodes."""

    family: Family
    demand: Demand
    score_slots: ScoreSlots
    table: CardTable

    def on(self, positions: Ints) -> Tried:
        """Try the pod on nodes with cards; nothing is changed."""
        bundle = _bind(self.table, positions)
        running = bundle.cards.scratch()
        wants = {request: self._want(bundle, request) for request in self._requests()}
        tried = Tried(np.ones(len(positions), bool), np.zeros(len(positions)))
        taken = np.zeros(len(bundle.rows), bool)
        chosen: list[Chosen] = []
        turn = 0
        for phase in PHASES_IN_ORDER_OF_PLACING:
            for container in self.demand.containers:
                if container.phase is not phase:
                    continue
                turn += 1
                if container.request is None:
                    continue
                request = container.request
                want = self._keep_to_card(bundle, wants[request], taken)
                columns = self._choose(bundle, running, request, want, tried, turn)
                where = running.scratch() if phase is Phase.INIT else running
                self._charge(bundle, where, want, columns, taken)
                chosen.append(Chosen(request, columns))
        if self.family.score is not None:
            tried.extra = self._weigh(bundle, chosen, next(iter(wants.values())))
        return tried

    def _requests(self) -> Iterator[Request]:
        return (container.request for container in self.demand.containers if container.request is not None)

    def _choose(self, bundle: Bundle, running: Cards, request: Request, want: Want, tried: Tried, turn: int) -> Ints:
        """Choose cards for one container on every node, and note which nodes do not have them."""
        codes = judge(running, want, self.family.rules.placed)
        hands = self._deal(bundle, running, want, codes)
        terms = make_terms(self.family, self.demand.selection, self.demand.choice.node_policy)
        barred = self._bar(bundle, hands, want)
        columns = choose(self.family, hands, request, terms)
        served = (columns != NO_CARD).any(axis=1)
        for row in np.flatnonzero(tried.takes & (barred | ~served)).tolist():
            refusal = self._say_why(bundle, hands, row, request, want)
            tried.unplaced[row] = Unplaced(refusal, turn)
            tried.takes[row] = False
        columns[~tried.takes] = NO_CARD
        return columns

    def _bar(self, bundle: Bundle, hands: Hands, want: Want) -> Flags:
        """Tell which nodes have too few cards, or cannot serve such a request at all."""
        barred = hands.wanted > bundle.totals
        if want.special is not None:
            barred = barred | (want.special.unserved[bundle.cells] & bundle.there).any(axis=1)
        return np.asarray(barred, np.bool_)

    def _say_why(self, bundle: Bundle, hands: Hands, row: int, request: Request, want: Want) -> Refusal:
        total = int(bundle.totals[row])
        if hands.wanted[row] > total:
            return refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)
        if want.special is not None and want.special.unserved[bundle.cells[row]][bundle.there[row]].any():
            return Refusal({Reason.MODE_NOT_FIT: 1}, total)
        return refuse(self.family, hands, row, request)

    def _want(self, bundle: Bundle, request: Request) -> Want:
        particular = None
        if self.family.is_particular:
            particular = Particular(
                self.family, self.table.facts, self.table.facts_of[bundle.cards.node], self.table.number
            )
        return make_want(
            bundle.cards,
            [self.table.uuids[row] for row in bundle.rows.tolist()],
            self.table.kinds,
            request,
            self.demand.selection,
            mutex=self.demand.choice.card_policy.mutex,
            headroom=UNBOUNDED,
            score_slots=self.score_slots,
            divided=bool(self.table.partitions),
            particular=particular,
        )

    def _keep_to_card(self, bundle: Bundle, want: Want, taken: Flags) -> Want:
        """Where the vendor wants it, refuse all cards but the one that the pod has already."""
        if not self.family.profile.fit.same_card or not taken.any():
            return want
        of_node = np.repeat(np.count_nonzero(taken[bundle.cells] & bundle.there, axis=1), bundle.totals)
        return msgspec.structs.replace(want, elsewhere=(of_node > 0) & ~(taken & (of_node == 1)))

    def _charge(self, bundle: Bundle, cards: Cards, want: Want, columns: Ints, taken: Flags) -> None:
        """Book what a container gets on every node."""
        rows, places = np.nonzero(columns != NO_CARD)
        given = bundle.cells[rows, columns[rows, places]]
        cores = want.cores if isinstance(want.cores, int) else want.cores[given]
        if self.family.profile.fit.bits:
            cores = _give_bits(cards.used_cores[given], cards.total_cores[given], cores)
        cards.used_slots[given] += 1 if want.special is None else want.special.slots[given]
        cards.used_memory_mib[given] += want.memory_mib[given]
        cards.used_cores[given] += cores
        taken[given] = True
        if self.family.is_hooked:
            self._note_tenants(cards, want, given)

    def _note_tenants(self, cards: Cards, want: Want, given: Ints) -> None:
        """Let later containers of the pod see how these cards are shared out; classes are those of other pods."""
        sum_groups(cards)
        if want.special is None or want.special.app_class == ONLINE:
            return
        shown = given[cards.policy[given] >= 0]
        cards.policy[shown] = 0 if want.special.whole else want.special.policy

    def _weigh(self, bundle: Bundle, chosen: list[Chosen], want: Want) -> Points:
        """Return what the vendor adds to the nodes' scores; the cards are as they were before the pod."""
        hands = self._deal(bundle, bundle.cards, want, np.zeros(len(bundle.rows), np.uint8))
        choice = self.demand.choice
        terms = make_terms(self.family, self.demand.selection, choice.node_policy)
        return weigh(self.family, hands, chosen, terms, spread=choice.node_policy == SPREAD)

    def _deal(self, bundle: Bundle, cards: Cards, want: Want, codes: Positions) -> Hands:
        cells, choice = bundle.cells, self.demand.choice
        return deal(self.family, choice, cards.rows(cells), want.rows(cells), codes[cells], bundle.there, bundle.facts)


def _bind(table: CardTable, positions: Ints) -> Bundle:
    """Copy the cards of some nodes, all of which have some."""
    starts, ends = table.starts[positions], table.ends[positions]
    counts = ends - starts
    firsts = np.cumsum(counts) - counts
    rows = np.arange(int(counts.sum())) + np.repeat(starts - firsts, counts)
    columns = np.arange(int(counts.max(initial=0)))[None, :]
    there = columns < counts[:, None]
    cells = np.where(there, firsts[:, None] + columns, firsts[:, None])
    facts = [table.facts[number] for number in table.facts_of[positions].tolist()]
    return Bundle(table.cards.rows(rows), rows, cells, there, facts)


def _give_bits(used: Ints, total: Ints, cores: Ints | int) -> Ints:
    """Return the masks that a container gets of cards whose cores are bits."""
    asked = np.broadcast_to(cores, used.shape).tolist()
    return np.array(list(map(give_bits, used.tolist(), total.tolist(), asked)), np.int64)
