"""A node on which room may be made, and the sets of pods whose leaving would make it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gpuloom.engine.explanation.rule_matrix import RuleMatrix
from gpuloom.engine.planning.defragmentation.card_sets import (
    MovableHolder,
    PodSets,
    Uids,
    combine_cards,
    count_least,
    find_card_sets,
)
from gpuloom.engine.state.card_table import CardTable
from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.state.usage import NOTHING, Usage
from gpuloom.model.uuids import card_id

_MOST_IN_ALL_SETS = 8
"""Of so many pods on a node all sets are given where its cards cannot be looked at one by one."""


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """A node and its pods that may move.

    least  fewer moves than these make no room
    sets   finds those of at most so many pods whose leaving may make room
    """

    node: str
    movable: Sequence[Reservation]
    least: int
    sets: Callable[[int], PodSets]


def choose_by_cards(node: str, movable: Sequence[Reservation], matrix: RuleMatrix, vendor: str) -> NodeChoice | None:
    """Look at each card by itself: for pods that fit where enough cards serve; None where no leaving is enough."""
    table = matrix.table
    rows = table.rows_of(table.positions[node])
    usable = matrix.would_do_empty()[rows]
    holders = [hold_cards(matrix.table, vendor, held) for held in movable]
    sets = find_card_sets(matrix, (np.flatnonzero(usable) + rows.start).tolist(), holders)
    breadths = {one.uid: max(len(one.usage), 1) for one in holders}
    cards = matrix.request.cards
    least = count_least(sets, cards, breadths)
    if least is None:
        return None
    return NodeChoice(node, movable, max(least, 1), lambda most: combine_cards(sets, cards, most))


def choose_by_trying(node: str, movable: Sequence[Reservation], fits: Callable[[Uids], bool]) -> NodeChoice | None:
    """Look at the node as a whole; ``fits`` tells whether the pod does beside those of the movable that stay.

    None where no leaving is enough. Of many pods one set is given from which nobody could stay: a smaller one may be.
    """
    if not fits(frozenset()):
        return None
    uids = [held.uid for held in movable]
    if len(uids) <= _MOST_IN_ALL_SETS:
        return NodeChoice(node, movable, 1, lambda most: _all_sets(uids, most))
    staying: Uids = frozenset()
    for uid in uids:
        if fits(staying | {uid}):
            staying |= {uid}
    moved = frozenset(uids) - staying
    return NodeChoice(node, movable, 1, lambda most: PodSets([moved] if len(moved) <= most else [], tried=0))


def _all_sets(uids: Sequence[str], most: int) -> PodSets:
    counts = range(1, min(most, len(uids)) + 1)
    return PodSets([frozenset(some) for count in counts for some in combinations(uids, count)])


def hold_cards(table: CardTable, vendor: str, held: Reservation) -> MovableHolder:
    """Say what a pod holds of the cards of one vendor."""
    by_row: dict[int, Usage] = {}
    for uuid, usage in held.usage_by_vendor().get(vendor, {}).items():
        row = table.row(held.node, card_id(uuid))
        if row is not None:
            by_row[row] = by_row.get(row, NOTHING) + usage
    return MovableHolder(held.uid, by_row)
