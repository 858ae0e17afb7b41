"""How many cards are idle, and how many are unhealthy."""

import numpy as np

from gpuloom.engine.state.card_table import NO_NODE
from gpuloom.model.cards import Flags
from gpuloom.scheduler.metrics.series import Samples
from gpuloom.scheduler.nodes.idle import count_idle, look_for_closed
from gpuloom.scheduler.state import SchedulerState


def count_idle_cards(state: SchedulerState) -> Samples:
    """Give the number by vendor, after None for each node that was looked at."""
    closed: list[str] = []
    for name in look_for_closed(state):
        yield None
        if name is not None:
            closed.append(name)
    for profile in state.settings.catalog:
        table = state.cluster[profile.word].table
        if table.positions:
            yield (profile.word,), count_idle(table, closed)


def count_unhealthy_cards(state: SchedulerState) -> Samples:
    """Give the number by node and vendor, for nodes that have some."""
    for profile in state.settings.catalog:
        table = state.cluster[profile.word].table
        unhealthy: Flags = (table.cards.healthy == 0) & (table.cards.node != NO_NODE)
        counts = np.bincount(table.cards.node[unhealthy], minlength=len(table.names))
        for position in np.flatnonzero(counts).tolist():
            yield (table.names[position], profile.word), int(counts[position])
