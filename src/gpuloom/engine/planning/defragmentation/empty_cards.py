"""How many cards nobody is on."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpuloom.engine.planning.defragmentation.plan import PodMove
from gpuloom.engine.state.card_table import NO_NODE
from gpuloom.engine.state.cluster_state import ClusterState


@dataclass(frozen=True, slots=True)
class EmptyCards:
    """Cards that nobody is on and that take pods: how many, and how many of one vendor are on one node at most."""

    cards: int
    most_on_a_node: int


def count_empty_cards(state: ClusterState, vendors: Iterable[str]) -> EmptyCards:
    """Count as things are."""
    counts, most = 0, 0
    for vendor in vendors:
        cards = state[vendor].table.cards
        empty = (cards.node != NO_NODE) & (cards.healthy != 0) & (cards.cordoned == 0) & (cards.used_slots == 0)
        counts += int(empty.sum())
        most = max(most, int(np.bincount(cards.node[empty]).max(initial=0)))
    return EmptyCards(counts, most)


def count_after_moves(state: ClusterState, vendors: Iterable[str], moves: Iterable[PodMove]) -> EmptyCards:
    """Count as things would be after some moves, before the pod comes for which they are made."""
    fork = state.fork()
    for move in moves:
        fork.forget(move.pod.uid)
        fork.assume(move.target)
    return count_empty_cards(fork, vendors)
