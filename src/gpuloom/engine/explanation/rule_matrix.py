"""All cards of the cluster at one moment, with everything that every rule says about them for one request."""

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass

import msgspec
import numpy as np

from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.filtering.equivalence_class import classify
from gpuloom.engine.filtering.per_card_request import make_request_columns
from gpuloom.engine.filtering.rules import DependsOn, NeededChange, Rule, adjust_cards
from gpuloom.engine.request.demand import Demand
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.model.cards import UNDIVIDED, Cards, Flags, Ints, RuleCodes
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
    codes    position of the first rule that rejects, 0 for none
    bits     all rules that reject, see :class:`NamedRule`
    """

    profile: Profile
    table: CardTable
    cards: Cards
    required: RequestColumns
    request: Request
    checks: tuple[NamedRule, ...]
    codes: RuleCodes
    bits: Ints

    def fitting(self) -> Ints:
        """Count the cards that no rule rejects, by position of the node."""
        return self.count(self.bits == 0)

    def count(self, which: Flags) -> Ints:
        """Count some cards by position of their node."""
        return np.bincount(self.cards.node[which], minlength=len(self.table.names))

    def would_do_empty(self) -> Flags:
        """Tell which cards would do if nobody were on them."""
        lasting = np.full(len(self.bits), sum(check.bit for check in self.checks if check.rule.outlasts_pods))
        health = sum(check.bit for check in self.checks if check.rule.change is NeededChange.HEALTHY)
        lasting[self.table.find_faulty()] &= ~health
        rejected = (self.bits < 0) | ((self.bits & lasting) != 0)
        return ~rejected & (self.required.memory_mib <= self.cards.total_memory_mib)

    def needs(self) -> Ints:
        """Count the cards that must do at least, by position of the node.

        One is enough where any is divided: it may serve a container several times.
        """
        divided = self.count(self.cards.division != UNDIVIDED) > 0
        return np.where(divided, 1, self.request.cards)

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

    def check(self, position: int) -> NamedRule:
        """Return the check at a position of the order."""
        return self.checks[position - 1]

    def behind(self, row: int) -> list[NamedRule]:
        """Return the checks that reject a card after the first."""
        bits, first = int(self.bits[row]), int(self.codes[row])
        return [check for check in self.checks[first:] if bits & check.bit]


def name_rules(scheduler: VendorScheduler) -> tuple[NamedRule, ...]:
    """Return the checks in their order: the profile's, then those that are always asked."""
    rules = scheduler.compiled.rules
    return tuple(
        NamedRule(name, rule, 1 << position) for name, (position, rule) in zip(rules.names, rules.numbered, strict=True)
    )


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
    checks = name_rules(scheduler)
    codes = np.zeros(len(table.cards), np.uint8)
    bits = np.zeros(len(table.cards), np.int64)
    for position, check in reversed(list(enumerate(checks, 1))):
        if of_registration and check.rule.depends_on is not DependsOn.REGISTRATION:
            continue
        if not check.rule.applies(required):
            continue
        rejected = check.rule.rejects(cards, required)
        codes[rejected] = position
        bits[rejected] |= check.bit
    # Rows that belong to no node count for nothing.
    bits[cards.node == NO_NODE] = -1
    return RuleMatrix(scheduler.profile, table, cards, required, request, checks, codes, bits)


def _other_than(table: CardTable, earlier: Collection[str]) -> Flags:
    """Mark all cards but the one that a pod has already; all where it has several."""
    taken = np.array([uuid in earlier for uuid in table.uuids], bool)
    return ~taken if np.count_nonzero(taken) == 1 else np.ones(len(taken), bool)
