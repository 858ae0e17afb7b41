"""The nodes that a decision may choose from, as positions in the card table."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, repeat

import numpy as np

from gpuloom.engine.scoring.policy import NodePolicy
from gpuloom.engine.scoring.ranking import UNFIT, Ranking
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.model.cards import Ints, Scores
from gpuloom.wire.nodeindex import NameIndex
from gpuloom.wire.nodenames import NodeNames

MANY = 600
"""Fewer names are read and looked up in less time than they are found as columns. In large clusters kube-scheduler
offers 500, other ones in each call, unless it is told to look at all nodes."""
MOST_SEARCHES = 8
"""Reading 5,000 names takes about as long as so many searches among them."""
_WORTH_A_SEARCH = 12
"""Reading 500 names takes twelve times as long as a search among 5,000 ranks, so a search is worth it where one node in
twelve is named, or more. Eight searches among 500 of 5,000 names find the best in 78 of 100 calls, one in 11. Where
fewer are named, one search still finds the best of many equal nodes in front."""
_NAMES_IN_FRONT = 32
"""Looking for so many names takes a sixth of the time of reading and looking for 420, as many as kube-scheduler offers
of 1,000 nodes. One of them is a best node in 97 of 100 calls while every tenth node is one. Where fewer best nodes are
to be expected among them than one, nobody looks."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Names of nodes in the order in which they were given, those with cards without repetition.

    known    positions of those that have cards
    unknown  names of those that have none: in a cluster of several vendors most
    where    the same positions as a slice if they are neighbours in order, which is the quicker way to read columns
    """

    known: Ints
    unknown: Collection[str]
    where: Ints | slice

    def __len__(self) -> int:
        return len(self.known) + len(self.unknown)

    def rank(self, table: CardTable, ranks: Scores, policy: NodePolicy, names: Sequence[str] | None = None) -> Ranking:
        """Rank the nodes by the ranks that all nodes have, or had when they were worked out; nobody else changes these.

        names  of all nodes by position, as they were then if not as they are
        """
        if names is not None and names is not table.names:
            return self._rank_as_before(table.names, ranks, policy, names)
        known, where = self.known, self.where
        if len(ranks) != len(table.names):
            # A node that came later has no rank.
            known = where = known[known < len(ranks)]
        return Ranking(table.names, known, ranks[where], candidates=len(self), policy=policy)

    def _rank_as_before(
        self, names: Sequence[str], ranks: Scores, policy: NodePolicy, before: Sequence[str]
    ) -> Ranking:
        """Rank the nodes by ranks from before names were forgotten: by now others may have their positions."""
        at_of = {name: at for at, name in enumerate(before[: len(ranks)]) if name}
        found = [at_of[name] for name in map(names.__getitem__, self.known.tolist()) if name in at_of]
        known = np.array(found, np.int64)
        return Ranking(before, known, ranks[known], candidates=len(self), policy=policy)


class _Unread(Collection[str]):
    """Some names of a list by their indices in it; the list is read when somebody wants them."""

    def __init__(self, names: NodeNames, indices: Ints) -> None:
        self._names = names
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def __iter__(self) -> Iterator[str]:
        return map(self._names.all().__getitem__, self._indices.tolist()) if len(self) else iter(())

    def __contains__(self, name: object) -> bool:
        return name in set(self)


def look_up(table: CardTable, names: Sequence[str]) -> Candidates:
    """Find the positions of nodes."""
    positions = find_positions(table, names)
    there = positions != NO_NODE
    known = positions[there]
    if _are_different(known):
        unknown = () if there.all() else tuple(dict.fromkeys(compress(names, (~there).tolist())))
        return Candidates(known, unknown, _where(known))
    # Rare: names that are repeated.
    position_of = dict(zip(names, positions.tolist(), strict=True))
    unknown = tuple(name for name, position in position_of.items() if position == NO_NODE)
    known = np.array([position for position in position_of.values() if position != NO_NODE], np.int64)
    return Candidates(known, unknown, known)


def look_up_among(table: CardTable, index: NameIndex, names: NodeNames) -> Candidates:
    """Find the positions of nodes as a call names them; a list of many is read only where it is not a plain one.

    Of a list of many names without cards are not looked at, not even whether any is there twice.

    index   of the table's names
    """
    if names.is_searchable and len(names) >= MANY:
        index.follow(table.names, table.namings)
        positions = index.find(names.text)
        # A node that lost its cards keeps its position.
        there = table.ends[positions] > table.starts[positions]
        known = positions[there]
        if _are_different(known):
            return Candidates(known, _Unread(names, np.flatnonzero(~there)), _where(known))
    return look_up(table, names.all())


def find_best(names: NodeNames, table: CardTable, ranks: Scores) -> int | None:
    """Return the position of the best node that a searchable list names, the first named among equals.

    None when no node has a rank, or when that would take more searches among many names than are worth it.

    ranks   by position, the better the larger, UNFIT for nodes that do not fit
    """
    if len(names) >= MANY:
        return _search_best(names, table, ranks, MOST_SEARCHES)
    is_worth_it = len(names) * _WORTH_A_SEARCH >= len(table.names)
    best = _search_best(names, table, ranks, MOST_SEARCHES if is_worth_it else 1)
    return _read_best(names, table, ranks) if best is None else best


def _search_best(names: NodeNames, table: CardTable, ranks: Scores, most: int) -> int | None:
    """Look for the best nodes in the text, at most for so many."""
    left, searches = ranks.copy(), 0
    left[NO_NODE] = UNFIT
    while searches < most:
        # Methods of the array: numpy's own functions for the same are written in Python, and every call asks these.
        rank = left[left.argmax()]
        if rank == UNFIT:
            return None
        equals = (left == rank).nonzero()[0]
        searches += len(equals)
        if searches > most:
            is_likely = len(equals) * _NAMES_IN_FRONT >= len(table.names)
            return _find_in_front(names, table, left, rank) if is_likely else None
        found = [(where, position) for position in equals.tolist() if (where := names.find(table.names[position])) >= 0]
        if found:
            return min(found)[1]
        left[equals] = UNFIT
    return None


def _find_in_front(names: NodeNames, table: CardTable, ranks: Scores, rank: float) -> int | None:
    """Return the first named node of a rank, None if it is not one of the first names: of many equals one often is."""
    for name in names.front(_NAMES_IN_FRONT):
        position = table.positions.get(name, NO_NODE)
        if ranks[position] == rank:
            return position
    return None


def _read_best(names: NodeNames, table: CardTable, ranks: Scores) -> int | None:
    """Read the names, and choose among their nodes."""
    if not (ranks[NO_NODE + 1 :] != UNFIT).any():
        return None
    known = (positions := find_positions(table, names.all()))[positions != NO_NODE]
    if not len(known):
        return None
    best = int(known[ranks[known].argmax()])
    return None if ranks[best] == UNFIT else best


def find_positions(table: CardTable, names: Sequence[str]) -> Ints:
    """Return the position of each name, NO_NODE for nodes without cards."""
    return np.fromiter(map(table.positions.get, names, repeat(NO_NODE)), np.int64, len(names))


def _are_different(positions: Ints) -> bool:
    """Whether these are nodes with cards, and none of them twice."""
    counts = np.bincount(positions, minlength=1)
    return not counts[NO_NODE] and bool(counts.max(initial=0) <= 1)


def _where(positions: Ints) -> Ints | slice:
    count = len(positions)
    if count and positions[-1] - positions[0] == count - 1 and (np.diff(positions) == 1).all():
        return slice(int(positions[0]), int(positions[-1]) + 1)
    return positions
