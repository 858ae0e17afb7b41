"""All cards of the cluster at one moment, with everything that every rule says about them for one request."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuloom.engine.decider import Decider
from gpuloom.engine.demand import Demand
from gpuloom.engine.explanation.imagining import ImaginedNode
from gpuloom.engine.need import make_want
from gpuloom.engine.rules import Positions, Rule, see_cards
from gpuloom.engine.table import NOBODY, CardTable
from gpuloom.engine.verdicts import see_particular
from gpuloom.model.cards import Cards, Flags, Ints
from gpuloom.model.request import Request
from gpuloom.model.want import Headroom, Want


@dataclass(frozen=True, slots=True)
class Check:
    """A rule under its name, and the bit that stands for it."""

    name: str
    rule: Rule
    bit: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Cards, what is wanted of them, and which rules reject them; aligned with the table's rows.

    verdict  position of the first rule that rejects, 0 for none
    bits     all rules that reject, see :class:`Check`
    """

    table: CardTable
    cards: Cards
    want: Want
    request: Request
    checks: tuple[Check, ...]
    verdict: Positions
    bits: Ints

    def fitting(self) -> Ints:
        """Count the cards that no rule rejects, by position of the node."""
        return self.count(self.bits == 0)

    def count(self, which: Flags) -> Ints:
        """Count some cards by position of their node."""
        return np.bincount(self.cards.node[which], minlength=len(self.table.names))

    def check(self, position: int) -> Check:
        """Return the check at a position of the order."""
        return self.checks[position - 1]

    def behind(self, row: int) -> list[Check]:
        """Return the checks that reject a card after the first."""
        bits, first = int(self.bits[row]), int(self.verdict[row])
        return [check for check in self.checks[first:] if bits & check.bit]


def list_checks(decider: Decider) -> tuple[Check, ...]:
    """Return the checks in their order: the profile's, then those that are always asked."""
    rules = decider.rules
    return tuple(
        Check(name, rule, 1 << position) for name, (position, rule) in zip(rules.names, rules.placed, strict=True)
    )


def take_picture(decider: Decider, table: CardTable, demand: Demand, request: Request, headroom: Headroom) -> Picture:
    """Ask every rule about every card of a table, for one request."""
    want = make_want(
        table.cards,
        table.uuids,
        table.kinds,
        request,
        demand.selection,
        mutex=demand.choice.card_policy.mutex,
        headroom=headroom,
        score_slots=decider.options.device_score_slots,
        divided=bool(table.partitions),
        particular=see_particular(decider.family, table),
    )
    cards = see_cards(table.cards, want)
    checks = list_checks(decider)
    verdict = np.zeros(len(table.cards), np.uint8)
    bits = np.zeros(len(table.cards), np.int64)
    for position, check in reversed(list(enumerate(checks, 1))):
        if not check.rule.matters(want):
            continue
        rejected = check.rule.rejects(cards, want)
        verdict[rejected] = position
        bits[rejected] |= check.bit
    # Rows that belong to no node count for nothing.
    bits[cards.node == NOBODY] = -1
    return Picture(table, cards, want, request, checks, verdict, bits)


def freeze(table: CardTable, changed: Sequence[ImaginedNode] = ()) -> CardTable:
    """Return the table as it is now, with some nodes as they are imagined."""
    frozen = table.copy()
    cards = frozen.cards
    for node in changed:
        position, other = table.positions.get(node.name, NOBODY), node.cluster.table
        if position == NOBODY:
            continue
        there, here = other.rows_of(other.positions[node.name]), table.rows_of(position)
        for column in ("healthy", "used_slots", "used_memory_mib", "used_cores", "free_instance_mib"):
            getattr(cards, column)[here] = getattr(other.cards, column)[there]
        frozen.node_scores[position] = other.node_scores[other.positions[node.name]]
    return frozen
