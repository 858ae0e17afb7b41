"""One vendor's card table as the policy ``fragmentation`` looks at it: columns by position, and what follows from all.

All classes of pods have it in common. It is brought up to date by the table's change log, and begins anew when nodes
registered other cards or other pods are to be expected. Everything follows from the table and its outlook as they are,
not from how they came to be so: a copy of a cluster decides as the cluster does.
"""

from typing import Any

import numpy as np

from gpuloom.engine.scoring.fragmentation.card_value import waste_of_rests
from gpuloom.engine.scoring.fragmentation.large_pod_nodes import LargePodNodes
from gpuloom.engine.scoring.fragmentation.market import Market, NodeInMarket, RunningMarket
from gpuloom.engine.scoring.fragmentation.measured_cards import (
    MOST_STATES,
    CardColumns,
    CardSize,
    MeasuredCards,
)
from gpuloom.engine.scoring.fragmentation.measured_cost import MeasuredCosts
from gpuloom.engine.scoring.fragmentation.parameters import PODS_WITH_CARDS
from gpuloom.engine.scoring.fragmentation.pod_mix import PodMix
from gpuloom.engine.scoring.fragmentation.useless_share import Supply, UselessShare
from gpuloom.engine.scoring.fragmentation.usual_mix import USUAL_MIX
from gpuloom.engine.scoring.fragmentation.workload import Workload
from gpuloom.engine.state.card_table import NEVER, NO_NODE, CardTable
from gpuloom.engine.state.seen_cards import SeenCards
from gpuloom.model.cards import UNDIVIDED, CardFacts, CardNumbers, Cards, Ints, Number, Points, RuleCodes
from gpuloom.vendors.profile import Profile

MOST_CARDS = 64
"""So many cards of a node are looked at, those registered first."""
MOST_READ = 128
"""So many nodes' cards are remembered as they were read: decisions go to few nodes at a time."""
FEW = 16
"""Up to so many nodes that changed are read in less time one by one than together."""


class FragmentationView:
    """The nodes of a table, by position.

    generation  counts new beginnings: whoever remembers anything of nodes begins anew too
    usual_mib   memory of the vendor's usual card; ``first_of_size`` a row of the table for each size of cards
    cards       the states that cards are in
    states      of each card, a row a node, and its number in ``cards``
    rows        where each of these cards stands in the table; ``there`` which places have a card
    counts      how many of the places of a node have a card
    free        thousandths of cards that are free; ``whole`` cards that nobody uses
    cpu         free milli-cores; ``capacity`` all of them
    model       of the first card: its position in the table's ``kinds``
    price       what a node charges for each thousandth of a card, because others want it more
    cpu_later   free milli-cores of nodes, once pods without cards will have taken theirs, at most;
                ``market_changes`` counts how often that or the price was another number
    looks       at how many cards this looked one by one so far, ``readings`` how often at many nodes together
    """

    def __init__(self, profile: Profile) -> None:
        self._word = profile.word
        self._counts_cores = not profile.fit.bits
        self._outlook: tuple[int, int] | None = None
        self._seen = NEVER
        self.weights = PODS_WITH_CARDS
        self.generation = self.market_changes = self.looks = self.readings = 0
        self._seen_cards = SeenCards(MOST_READ)
        self._unsupplied: set[int] = set()
        self._known = Market(np.zeros(0), 1.0)

    def refresh(self, table: CardTable) -> None:
        """Bring the columns up to date."""
        outlook = id(table.outlook), table.outlook.version
        changed = table.changed_since(self._seen) if outlook == self._outlook else None
        if changed is None or len(self.cards) > MOST_STATES:
            self._rebuild(table)
            self._outlook = outlook
        elif changed:
            self._catch_up(table, sorted(changed))
        self._seen = table.version

    def _catch_up(self, table: CardTable, changed: list[int]) -> None:
        """Read nodes that changed: few of them one by one where that is enough, all others together."""
        if len(changed) <= FEW:
            changed = [position for position in changed if not self._read_one(table, position)]
        is_new = False
        if changed:
            positions = np.array(changed, np.int64)
            capacity = self.capacity[positions]
            self._count(positions, sign=-1)
            self._read(table, positions)
            self._count(positions, sign=1)
            is_new = bool((capacity != self.capacity[positions]).any())
        self._follow_market(is_new=is_new)

    def _rebuild(self, table: CardTable) -> None:
        """Read all nodes anew: the outlook has changed, too many nodes have, or too many states of cards are known."""
        self.generation += 1
        self._seen_cards.clear()
        self._unsupplied.clear()
        count = len(table.names)
        self.rows, self.there = table.lay_out(np.arange(count))
        self.rows, self.there = self.rows[:, :MOST_CARDS], self.there[:, :MOST_CARDS]
        self.counts = np.count_nonzero(self.there, axis=1).tolist()
        self._first_rows = table.starts[:count].tolist()
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
        models = [str(at) for at in range(len(table.kinds) or 1)]
        useless = UselessShare(self.workload.typical(), models)
        self.cards = MeasuredCards(
            [CardSize(*one) for one in by_size.tolist()] or [CardSize(0, 0)],
            useless.asked,
            waste_of_rests(self.workload),
        )
        self.large_pods = LargePodNodes(self.workload, self.weights.large_pods)
        self.costs = MeasuredCosts(self.cards, useless, self.workload, self.large_pods, self.weights)
        self._market = RunningMarket(self.workload, models, self.large_pods)
        self.states: Ints = np.zeros(self.rows.shape, np.int64)
        self.free, self.whole = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.cpu, self.capacity = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._spare: Points = np.zeros(count)
        asked = len(useless.asked)
        self._supplied: Points = np.zeros((count, 2 * asked))
        self._used: Points = np.zeros(count)
        everything = np.arange(count)
        self._read(table, everything)
        self._count(everything, sign=1)
        self._follow_market(is_new=True)

    def _read(self, table: CardTable, positions: Ints) -> None:
        """Read nodes together."""
        self.readings += 1
        there = self.there[positions]
        rows = self.rows[positions][there]
        states = np.zeros(there.shape, np.int64)
        states[there] = self.number(rows, table.cards.rows(rows))
        self.states[positions] = states
        self.free[positions] = self.cards.free[states].sum(axis=1)
        self.whole[positions] = self.cards.whole[states].sum(axis=1)
        cpu = [table.outlook.cpu(table.names[position]) for position in positions.tolist()]
        self.cpu[positions] = [max(one.free, 0) for one in cpu]
        self.capacity[positions] = [one.capacity for one in cpu]
        self._spare[positions] = self.weights.price_spare_cpu(self.capacity[positions], there.sum(axis=1))
        self._unsupplied.difference_update(positions.tolist())
        self._find_supply(positions)

    def number(self, rows: Ints, cards: Cards) -> Ints:
        """Return the numbers of the states of cards that stand in these rows of the table, used as is said here."""
        columns = CardColumns(
            size=self._size[rows],
            slots=cards.count - cards.used_slots,
            cores=self._cores_of(cards) - (cards.used_cores if self._counts_cores else 0),
            memory_mib=cards.total_memory_mib - cards.used_memory_mib,
            unused=cards.used_slots == 0,
        )
        return self.cards.number(columns, _can_serve(cards))

    def _read_one(self, table: CardTable, position: int) -> bool:
        """Read those cards of a node that are others than before, from plain numbers; tell whether that was enough.

        It is not where the node has no cards or another capacity of CPU.
        """
        cpu = table.outlook.cpu(table.names[position])
        count = self.counts[position]
        if not count or cpu.capacity != self.capacity.item(position):
            return False
        cards = table.cards_of(position)
        places = self.remember_node(position, cards)
        self.looks += len(places)
        found = [self._number_one(position, at, cards[at]) for at in places]
        was = NodeInMarket(self.free.item(position), self.whole.item(position), self.cpu.item(position))
        free, whole = was.free, was.whole
        states, measured = self.states, self.cards
        for at, new in zip(places, found, strict=True):
            old = states.item(position, at)
            if old != new:
                states[position, at] = new
                free += measured.free.item(new) - measured.free.item(old)
                whole += measured.whole.item(new) - measured.whole.item(old)
        now = NodeInMarket(free, whole, max(cpu.free, 0))
        self.free[position], self.whole[position], self.cpu[position] = now
        self._unsupplied.add(position)
        self._market.change(self.model.item(position), cpu.capacity, was, now)
        return True

    def remember_node(self, position: int, cards: list[CardNumbers]) -> list[int]:
        """Remember the cards of a node as they are read now; return the places of those that were others before."""
        return self._seen_cards.note(position, cards[: self.counts[position]])

    def _number_one(self, position: int, at: int, card: CardNumbers) -> int:
        return self.cards.number_one(
            self._size.item(self._first_rows[position] + at),
            card.count - card.used_slots if _can_serve(card) else 0,
            card.total_cores - card.used_cores if self._counts_cores else 0,
            card.total_memory_mib - card.used_memory_mib,
            unused=card.used_slots == 0,
        )

    def key_of(self, position: int) -> tuple[bytes, int, int]:
        """Return what the cost of a pod on a node follows from, beside what rules say of its cards."""
        return self.states[position].tobytes(), self.cpu.item(position), self.model.item(position)

    def codes_of(self, position: int, column: RuleCodes) -> bytes:
        """Return what a column of all cards has for a node's."""
        first = self._first_rows[position]
        return column[first : first + self.counts[position]].tobytes()

    def supply(self, which: slice | Ints) -> tuple[Supply, Points]:
        """Return what nodes have for typical pods, and what these can use of it."""
        unsupplied = self._unsupplied
        if len(unsupplied) > FEW:
            self._find_supply(np.array(sorted(unsupplied), np.int64))
        else:
            for position in unsupplied:
                self._find_supply_of(position)
        unsupplied.clear()
        return self.costs.split(self._supplied[which]), self._used[which]

    def supply_of(self, position: int) -> tuple[Points, float]:
        """Return the same for one node, the supply in one row."""
        if position in self._unsupplied:
            self._find_supply_of(position)
            self._unsupplied.discard(position)
        return self._supplied[position], self._used.item(position)

    def stranded(self) -> Points:
        """Return by node what is free and a typical pod cannot use, in thousandths of cards."""
        _, used = self.supply(slice(None))
        return self.free - used

    def _find_supply(self, positions: Ints) -> None:
        self._supplied[positions] = supplied = self.costs.supplied(self.states[positions])
        self._used[positions] = self.costs.used(self.costs.split(supplied), self.model[positions], self.cpu[positions])

    def _find_supply_of(self, at: int) -> None:
        self._supplied[at] = supplied = self.costs.supplied(self.states[at])
        self._used[at] = self.costs.used_of(self.costs.split(supplied), self.model.item(at), self.cpu.item(at))

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
        if is_new or (market.scarcity is not self._known.scarcity and (market.scarcity != self._known.scarcity).any()):
            self.price = self.weights.scarcity * market.scarcity[self.model] + self._spare
            self.market_changes += 1
        if is_new or market.cpu_level != self._known.cpu_level:
            self.cpu_later = market.cpu_level * self.capacity
            self.market_changes += 1
        self._known = market

    def large_pod_prices(self) -> list[float]:
        """Return by class of large pods what it costs to take a node from it."""
        return self._market.large_pod_prices()


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


def _can_serve(cards: CardFacts[Number]) -> Any:
    """Say which cards may serve anybody in parts of any size."""
    return (cards.healthy != 0) & (cards.cordoned == 0) & (cards.division == UNDIVIDED)
