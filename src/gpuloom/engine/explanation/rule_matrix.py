"""All cards of the cluster at one moment, with everything that every rule says about them for one request."""

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass

import msgspec
import numpy as np

from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.filtering.equivalence_class import classify
from gpuloom.engine.filtering.per_card_request import make_request_columns
from gpuloom.engine.filtering.rules import DependsOn, NeededChange, Rule, adjust_cards
from gpuloom.engine.request.demand import Demand
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.model.cards import UNDIVIDED, Cards, Flags, Ints
from gpuloom.model.request import Request
from gpuloom.model.request_columns import Headroom, RequestColumns
from gpuloom.vendors.profile import Profile


@dataclass(frozen=True, slots=True)
class NamedRule:
    """A rule under its name, and the bit that stands for it."""

    name: str
    rule: Rule
    bit: int


@dataclass(frozen=True, slots=True)
class RuleMatrix:
    """Cards, what is wanted of them, and which rules reject them; aligned with the table's rows.

    profile  the vendor of the cards
    checks   the rules in their order: the profile's, then those that are always asked
    bits     of the rules that reject a card; -1 where it counts for nothing
    """

    profile: Profile
    table: CardTable
    cards: Cards
    required: RequestColumns
    request: Request
    checks: tuple[NamedRule, ...]
    bits: Ints

    def fitting(self) -> Ints:
        """Count the cards that no rule rejects, by position of the node."""
        return self.count(self.bits == 0)

    def count(self, which: Flags) -> Ints:
        """Count some cards by position of their node."""
        return np.bincount(self.cards.node[which], minlength=len(self.table.names))

    def would_do_empty(self) -> Flags:
        """Tell which cards would do if nobody were on them."""
        lasting = np.full(len(self.bits), self.bits_of(lambda rule: rule.outlasts_pods))
        lasting[self.table.find_faulty()] &= ~self.bits_of(lambda rule: rule.change is NeededChange.HEALTHY)
        rejected = (self.bits < 0) | ((self.bits & lasting) != 0)
        return ~rejected & (self.required.memory_mib <= self.cards.total_memory_mib)

    def needs(self, wanted: int = 0) -> Ints:
        """Count the cards that must do at least, by position of the node, where so many are wanted if not as asked.

        One is enough where any is divided: it may serve a container several times.
        """
        divided = self.count(self.cards.division != UNDIVIDED) > 0
        return np.where(divided, 1, wanted or self.request.cards)

    def only(self, nodes: Collection[str]) -> "RuleMatrix":
        """Return the same where cards of other nodes count for nothing."""
        named = np.array([name in nodes for name in self.table.names], bool)
        return dataclasses.replace(self, bits=np.where(named[self.cards.node], self.bits, -1))

    def find_last(self, rows: Ints, values: Ints, counts: Ints) -> Ints:
        """Find the last of so many rows of a node, lowest values first, of each that has as many.

        values  of these rows; ``counts`` are by position of the node, the answer is places in ``rows``
        """
        nodes = self.cards.node[rows]
        order = np.lexsort((values, nodes))
        places, first, there = np.unique(nodes[order], return_index=True, return_counts=True)
        enough = counts[places] <= there
        found: Ints = order[(first + counts[places] - 1)[enough]]
        return found

    def bits_of(self, which: Callable[[Rule], bool]) -> int:
        """Return the bits of some rules."""
        return sum(check.bit for check in self.checks if which(check.rule))

    def rejecting(self, row: int) -> list[Rule]:
        """Return the rules that reject a card, in their order."""
        bits = int(self.bits[row])
        return [check.rule for check in self.checks if bits & check.bit]


def make_rule_matrix(
    scheduler: VendorScheduler,
    table: CardTable,
    demand: Demand,
    request: Request,
    headroom: Headroom,
    *,
    keep_to: Collection[str] = (),
    of_registration: bool = False,
) -> RuleMatrix:
    """Ask every rule about every card of a table, for one request.

    keep_to  cards that the pod has already on the only node, where all of its containers must get the same
    of_registration  ask those alone whose answers usage does not change
    """
    compiled = scheduler.compiled
    required = make_request_columns(compiled, table, classify(compiled, demand, request, headroom))
    if keep_to:
        required = msgspec.structs.replace(required, other_than_earlier_card=_other_than(table, keep_to))
    cards = adjust_cards(table.cards, required)
    rules = zip(compiled.rules.names, compiled.rules.numbered, strict=True)
    checks = tuple(NamedRule(name, rule, 1 << position) for name, (position, rule) in rules)
    bits = np.zeros(len(table.cards), np.int64)
    for check in checks:
        is_asked = not of_registration or check.rule.depends_on is DependsOn.REGISTRATION
        if is_asked and check.rule.applies(required):
            bits[check.rule.rejects(cards, required)] |= check.bit
    # Rows that belong to no node count for nothing.
    bits[cards.node == NO_NODE] = -1
    return RuleMatrix(scheduler.profile, table, cards, required, request, checks, bits)


def _other_than(table: CardTable, earlier: Collection[str]) -> Flags:
    """Mark all cards but the one that a pod has already; all where it has several."""
    taken = np.array([uuid in earlier for uuid in table.uuids], bool)
    return ~taken if np.count_nonzero(taken) == 1 else np.ones(len(taken), bool)
