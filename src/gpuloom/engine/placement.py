"""Which cards of one node the containers of a pod get (scheduler 4.4, 6.1, 6.3)."""

from collections.abc import Sequence

import numpy as np

from gpuloom.engine.demand import Phase
from gpuloom.engine.rules import Positions, Rule, judge
from gpuloom.engine.scores import order_cards
from gpuloom.model.cards import Cards, Ints
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.want import Want

PHASES_IN_ORDER_OF_PLACING = (Phase.SIDECAR, Phase.INIT, Phase.REGULAR)
"""Sidecars run beside all others, so they are placed first; what is booked (scheduler 4.5) then always fits."""

Placement = tuple[Ints, ...]
"""Per container the rows it gets, in the order in which they were taken."""


def place(
    cards: Cards, containers: Sequence[tuple[Phase, Want | None]], rules: Sequence[Rule], policy: str
) -> Placement | Refusal:
    """Place all containers of a pod on the cards of one node, or say why the first that does not fit does not.

    Init containers run one after another, so each sees the node without the others; regular containers and sidecars
    see everything placed before them. ``cards`` is left as it is.
    """
    running = cards.scratch()
    rows: list[Ints] = [np.empty(0, np.int64)] * len(containers)
    for phase in PHASES_IN_ORDER_OF_PLACING:
        for position, (when, want) in enumerate(containers):
            if when is not phase or want is None:
                continue
            taken = take(running, want, rules, policy)
            if isinstance(taken, Refusal):
                return taken
            rows[position] = taken
            if phase is not Phase.INIT:
                charge(running, taken, want)
    return tuple(rows)


def take(cards: Cards, want: Want, rules: Sequence[Rule], policy: str) -> Ints | Refusal:
    """Return the rows that one container gets on these cards of one node, or why it gets none."""
    verdict = judge(cards, want, rules)
    fitting = int(np.count_nonzero(verdict == 0))
    if fitting < want.cards:
        return refuse(count_positions(verdict, rules), want, rules)
    order = order_cards(cards, want, policy)
    return order[verdict[order] == 0][: want.cards]


def charge(cards: Cards, rows: Ints, want: Want) -> None:
    """Book one share on each of these rows of a scratch table."""
    cards.used_slots[rows] += 1
    cards.used_memory_mib[rows] += want.memory_mib[rows]
    cards.used_cores[rows] += want.cores


def count_positions(verdict: Positions, rules: Sequence[Rule]) -> Ints:
    """Count how many cards each rule rejects first; the first number counts those that fit."""
    return np.bincount(verdict, minlength=len(rules) + 1)


def refuse(counts: Ints, want: Want, rules: Sequence[Rule]) -> Refusal:
    """Make a node's refusal from its counted verdicts.

    counts: as :func:`count_positions` returns them, for the cards of one node that are too few or do not fit.
    """
    total = int(counts.sum())
    if want.cards > total:
        return refuse_node(Reason.NODE_INSUFFICIENT_DEVICE)
    by_reason: dict[Reason, int] = {}
    for rule, count in zip(rules, counts[1:].tolist(), strict=True):
        if count:
            by_reason[rule.reason] = by_reason.get(rule.reason, 0) + count
    if fitting := int(counts[0]):
        by_reason[Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST] = fitting
    return Refusal(by_reason, total)
