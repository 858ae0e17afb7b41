"""Idle cards: healthy and open, on a node that takes pods, and nobody is on them."""

from collections.abc import Iterable, Iterator

import numpy as np

from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.model.cards import Flags
from gpuloom.scheduler.nodes.missingcards import explain_unschedulable
from gpuloom.scheduler.state import SchedulerState


def look_for_closed(state: SchedulerState) -> Iterator[str | None]:
    """Look at one node after another; give the names of those that take no pods, None for the others."""
    for name, node in list(state.nodes.items()):
        yield name if explain_unschedulable(node) else None


def count_idle(table: CardTable, closed: Iterable[str]) -> int:
    """Count the idle cards of a vendor; ``closed`` are the names of the nodes that take no pods."""
    is_open: Flags = np.ones(len(table.names), np.bool_)
    is_open[[NO_NODE, *(table.positions[name] for name in closed if name in table.positions)]] = False
    cards = table.cards
    idle: Flags = (cards.used_slots == 0) & (cards.healthy != 0) & (cards.cordoned == 0) & is_open[cards.node]
    return int(idle.sum())
