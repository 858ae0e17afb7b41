"""One vendor's card table as the policy ``fragmentation`` looks at it: columns by position, and what follows from all.

All classes of pods have it in common. It is brought up to date by the table's change log, and begins anew when nodes
registered other cards or other pods are to be expected. Everything follows from the table and its outlook as they are,
not from how they came to be so: a copy of a cluster decides as the cluster does.
"""

import numpy as np

from gpuloom.engine.scoring.fragmentation.card_value import waste_of_rests
from gpuloom.engine.scoring.fragmentation.market import Market
from gpuloom.engine.scoring.fragmentation.measured_cards import MOST_STATES, CardColumns, CardSize, MeasuredCards
from gpuloom.engine.scoring.fragmentation.measured_cost import MeasuredCosts
from gpuloom.engine.scoring.fragmentation.parameters import PODS_WITH_CARDS
from gpuloom.engine.scoring.fragmentation.pod_mix import PodMix
from gpuloom.engine.scoring.fragmentation.reserve import Reserve
from gpuloom.engine.scoring.fragmentation.running_market import RunningMarket
from gpuloom.engine.scoring.fragmentation.useless_share import Supply, UselessShare
from gpuloom.engine.scoring.fragmentation.usual_mix import USUAL_MIX
from gpuloom.engine.scoring.fragmentation.workload import Workload
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.model.cards import UNDIVIDED, CardNumbers, Cards, Flags, Ints, Points
from gpuloom.vendors.profile import Profile

MOST_CARDS = 64
"""So many cards of a node are looked at, those registered first."""
_AMPLE_CPU = 52_000
"""Milli-cores for each card that only few nodes have."""


class FragmentationView:
    """The nodes of a table, by position.

    generation  counts new beginnings: whoever remembers anything of nodes begins anew too
    usual_mib   memory of the vendor's usual card; ``first_of_size`` a row of the table for each size of cards
    cards       the states that cards are in
    states      of each card, a row a node, and its number in ``cards``
    rows        where each of these cards stands in the table; ``there`` which places have a card
    supply      what nodes have for typical pods, ``used`` what these can use of it
    free        thousandths of cards that are free; ``whole`` cards that nobody uses
    cpu         free milli-cores; ``capacity`` all of them
    model       of the first card: its position in the table's ``kinds``
    price       what a node charges for each thousandth of a card, because others want it more
    cpu_later   free milli-cores of nodes, once pods without cards will have taken theirs, at most;
                ``market_changes`` counts how often that or the price was another number
    """

    def __init__(self, profile: Profile) -> None:
        self._word = profile.word
        self._counts_cores = not profile.fit.bits
        self._marks: tuple[int, int, int] | None = None
        self._mark = -1
        self.weights = PODS_WITH_CARDS
        self.generation = self.market_changes = 0
        self._known = Market(np.zeros(0), 1.0)

    def refresh(self, table: CardTable) -> None:
        """Bring the columns up to date."""
        marks = (id(table.outlook), table.outlook.version, table.registrations)
        changed = table.change_log.since(self._mark) if marks == self._marks else None
        if changed is None or len(self.cards) > MOST_STATES:
            self._begin(table)
            self._marks = marks
        elif changed:
            positions = np.array(sorted(set(changed)), np.int64)
            capacity = self.capacity[positions]
            if len(positions) > 1 or not self._read_one(table, positions.item(0)):
                self._count(positions, sign=-1)
                self._read(table, positions)
                self._count(positions, sign=1)
            self._follow_market(is_new=bool((capacity != self.capacity[positions]).any()))
        self._mark = table.change_log.mark

    def _begin(self, table: CardTable) -> None:
        self.generation += 1
        count = len(table.names)
        self.rows, self.there = table.lay_out(np.arange(count))
        self.rows, self.there = self.rows[:, :MOST_CARDS], self.there[:, :MOST_CARDS]
        first = self.rows[:, :1]
        self.model: Ints = np.zeros(count, np.int64)
        if first.size:
            self.model = np.where(self.there[:, 0], table.cards.kind[first[:, 0]], 0)
        sizes = table.cards.total_memory_mib, self._cores_of(table.cards)
        by_size, self.first_of_size, size = np.unique(
            np.stack(sizes, axis=1), axis=0, return_index=True, return_inverse=True
        )
        self._size = size.reshape(-1)
        self.usual_mib = find_usual_mib(table)
        self.workload = foresee(self._word, table, table.outlook.mix)
        models = len(table.kinds) or 1
        useless = UselessShare(self.workload.typical(), [str(at) for at in range(models)])
        self.cards = MeasuredCards(
            [CardSize(*one) for one in by_size.tolist()] or [CardSize(0, 0)],
            useless.asked,
            waste_of_rests(self.workload),
        )
        self.reserve = Reserve(self.workload, self.weights.reserve)
        self.costs = MeasuredCosts(self.cards, useless, self.workload, self.reserve, self.weights)
        self._market = RunningMarket(self.workload, models, self.reserve)
        self.states: Ints = np.zeros(self.rows.shape, np.int64)
        self.free, self.whole = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.cpu, self.capacity = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._spare: Points = np.zeros(count)
        asked = len(useless.asked)
        self.supply = Supply(np.zeros((count, asked)), np.zeros((count, asked)))
        self.used: Points = np.zeros(count)
        everything = np.arange(count)
        self._read(table, everything)
        self._count(everything, sign=1)
        self._follow_market(is_new=True)

    def _read(self, table: CardTable, positions: Ints) -> None:
        """Read nodes that changed."""
        there = self.there[positions]
        rows = self.rows[positions][there]
        cards = table.cards.rows(rows)
        columns = CardColumns(
            size=self._size[rows],
            slots=cards.count - cards.used_slots,
            cores=self._cores_of(cards) - (cards.used_cores if self._counts_cores else 0),
            memory_mib=cards.total_memory_mib - cards.used_memory_mib,
            unused=cards.used_slots == 0,
        )
        states = np.zeros(there.shape, np.int64)
        states[there] = self.cards.number(columns, _can_serve(cards))
        self._note(table, positions, states)

    def _read_one(self, table: CardTable, position: int) -> bool:
        """Read one node whose CPU is as before, from plain numbers; tell whether that was enough."""
        there = int(np.count_nonzero(self.there[position]))
        sizes, counts_cores = self._size[self.rows[position]].tolist(), self._counts_cores
        cards = table.cards_of(position)[:there]
        cpu = table.outlook.cpu(table.names[position])
        if (max(cpu.free, 0), cpu.capacity) != (self.cpu.item(position), self.capacity.item(position)) or not there:
            return False
        states = self.cards.recall(
            (
                size,
                one.count - one.used_slots if _can_serve_alone(one) else 0,
                one.total_cores - one.used_cores if counts_cores else 0,
                one.total_memory_mib - one.used_memory_mib,
                one.used_slots == 0,
            )
            for size, one in zip(sizes, cards, strict=False)
        )
        if states is None:
            return False
        free, whole = self.free.item(position), self.whole.item(position)
        row = self.states[position]
        row[:there] = states
        self.free[position], self.whole[position] = self.cards.free[row].sum(), self.cards.whole[row].sum()
        np.sum(self.cards.serves[row], axis=0, out=self.supply.cards[position])
        np.sum(self.cards.usable[row], axis=0, out=self.supply.milli[position])
        some = slice(position, position + 1)
        supply = Supply(self.supply.cards[some], self.supply.milli[some])
        self.used[some] = self.costs.used(supply, self.model[some], self.cpu[some])
        before, after = (free, whole), (self.free.item(position), self.whole.item(position))
        self._market.change(self.model.item(position), before, after, self.cpu.item(position))
        return True

    def _note(self, table: CardTable, positions: Ints, states: Ints) -> None:
        """Take the states of cards of nodes, and what follows from them and from the CPU of the nodes."""
        self.states[positions] = states
        self.free[positions] = self.cards.free[states].sum(axis=1)
        self.whole[positions] = self.cards.whole[states].sum(axis=1)
        cpu = [table.outlook.cpu(table.names[position]) for position in positions.tolist()]
        self.cpu[positions] = [max(one.free, 0) for one in cpu]
        self.capacity[positions] = [one.capacity for one in cpu]
        a_card = self.capacity[positions] / np.maximum(self.there[positions].sum(axis=1), 1)
        self._spare[positions] = self.weights.spare_cpu * np.minimum(1.0, a_card / _AMPLE_CPU) ** 2
        supply = self.costs.supply(states)
        self.supply.cards[positions], self.supply.milli[positions] = supply
        self.used[positions] = self.costs.used(supply, self.model[positions], self.cpu[positions])

    def _cores_of(self, cards: Cards) -> Ints:
        """Return the cores of cards, 0 where they cannot be counted as an amount."""
        return cards.total_cores if self._counts_cores else np.zeros(len(cards), np.int64)

    def _count(self, positions: Ints, *, sign: int) -> None:
        some = positions[self.there[positions].any(axis=1)] if self.there.size else positions[:0]
        self._market.count(
            self.model[some], self.free[some], self.whole[some], self.cpu[some], self.capacity[some], sign=sign
        )

    def _follow_market(self, *, is_new: bool) -> None:
        """Work out what changes with the market, where it is another one."""
        market = self._market.now()
        if is_new or (market.scarcity != self._known.scarcity).any():
            self.price = self.weights.scarcity * market.scarcity[self.model] + self._spare
            self.market_changes += 1
        if is_new or market.cpu_level != self._known.cpu_level:
            self.cpu_later = market.cpu_level * self.capacity
            self.market_changes += 1
        self._known = market

    def reserve_prices(self) -> Points:
        """Return a row a class of the reserve: what it charges whoever makes a node unable to serve it."""
        return self._market.reserve_prices()


def foresee(word: str, table: CardTable, mix: PodMix) -> Workload:
    """Return the pods to come as a vendor's cards see them; the usual ones where none asks for such cards."""
    models, usual_mib = [model for model, _ in table.kinds], find_usual_mib(table)
    found = mix.of_vendor(word, models, usual_mib) or USUAL_MIX.of_vendor(word, models, usual_mib)
    if found is None:
        raise ValueError(f"the usual pods ask for no cards of {word}")
    return found


def find_usual_mib(table: CardTable) -> int:
    """Return the memory that most cards of a table have, of equally many the larger; 0 without cards."""
    amounts, times = np.unique(table.cards.total_memory_mib[table.cards.node != NO_NODE], return_counts=True)
    return max(zip(times.tolist(), amounts.tolist(), strict=True), default=(0, 0))[1]


def _can_serve_alone(card: CardNumbers) -> bool:
    return bool(card.healthy) and not card.cordoned and card.division == UNDIVIDED


def _can_serve(cards: Cards) -> Flags:
    """Say which cards may serve anybody in parts of any size."""
    usable: Flags = (cards.healthy != 0) & (cards.cordoned == 0) & (cards.division == UNDIVIDED)
    return usable
