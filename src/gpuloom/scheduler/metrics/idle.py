"""How many cards nobody is on that pods could get, and how many are unhealthy."""

from collections.abc import Iterable, Mapping

import numpy as np

from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.model.cards import Flags
from gpuloom.scheduler.metrics.series import Samples
from gpuloom.scheduler.nodes.missingcards import explain_unschedulable
from gpuloom.wire.objects import Node


def count_idle_cards(cluster: ClusterState, nodes: Mapping[str, Node]) -> Samples:
    """Give the number by vendor, after None for each node that was looked at."""
    closed: list[str] = []
    for name, node in list(nodes.items()):
        yield None
        if explain_unschedulable(node):
            closed.append(name)
    for profile in cluster.catalog:
        table = cluster[profile.word].table
        if table.positions:
            yield (profile.word,), _count(table, closed)


def count_unhealthy_cards(cluster: ClusterState) -> Samples:
    """Give the number by node and vendor, for nodes that have some."""
    for profile in cluster.catalog:
        table = cluster[profile.word].table
        unhealthy: Flags = (table.cards.healthy == 0) & (table.cards.node != NO_NODE)
        # Nodes may come and go between samples: these are those of now.
        names, counts = table.names, np.bincount(table.cards.node[unhealthy])
        for position in np.flatnonzero(counts).tolist():
            yield (names[position], profile.word), int(counts[position])


def _count(table: CardTable, closed: Iterable[str]) -> int:
    is_open: Flags = np.ones(len(table.names), np.bool_)
    is_open[[NO_NODE, *(table.positions[name] for name in closed if name in table.positions)]] = False
    cards = table.cards
    usable: Flags = (cards.used_slots == 0) & (cards.healthy != 0) & (cards.cordoned == 0) & is_open[cards.node]
    return int(usable.sum())
