"""Where free shares of cards are that pods to come cannot use on average, and why (placement quality 3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpuloom.engine.filtering.fragmentation_view import FragmentationView
from gpuloom.engine.scoring.fragmentation.workload import WHOLE
from gpuloom.engine.state.card_table import CardTable
from gpuloom.model.cards import Ints, Points


class StrandedShares(NamedTuple):
    """Free shares, in cards.

    free          all that is free
    no_cards      stranded because pods to come ask for no cards
    other_models  because they do not accept the model
    no_cpu        because they ask for more CPU than the node has free
    pieces        because they ask for larger pieces, or for more cards with enough room, than are free
    """

    free: float
    no_cards: float
    other_models: float
    no_cpu: float
    pieces: float

    @property
    def stranded(self) -> float:
        """All that pods to come cannot use on average."""
        return self.no_cards + self.other_models + self.no_cpu + self.pieces


class FreedUsage(NamedTuple):
    """What sets of pods would no longer use, as columns: the set's line, the card's row in the table, and how much."""

    lines: Ints
    rows: Ints
    slots: Ints
    memory_mib: Ints
    cores: Ints


@dataclass(frozen=True, slots=True)
class StrandedByNode:
    """The shares of one vendor's nodes.

    column_of  the column of each node
    columns    a row each for what :class:`StrandedShares` tells
    """

    column_of: Mapping[str, int]
    columns: Points

    def node(self, name: str) -> StrandedShares:
        """Return the shares of a node that has a column."""
        return StrandedShares(*self.columns[:, self.column_of[name]].tolist())

    def total(self) -> StrandedShares:
        """Return the sums over all nodes."""
        return StrandedShares(*self.columns.sum(axis=1).tolist())


def list_stranded(view: FragmentationView, table: CardTable) -> StrandedByNode:
    """Return what is stranded on each node; the causes add up to it."""
    free = view.free / WHOLE
    barred = [chance * free for chance in view.costs.barred(view.model, view.cpu)]
    pieces = np.maximum(view.stranded() / WHOLE - sum(barred), 0.0)
    return StrandedByNode(dict(table.positions), np.stack([free, *barred, pieces]))


def strand_without(view: FragmentationView, table: CardTable, positions: Ints, freed: FreedUsage) -> Points:
    """Return what would be stranded on nodes, in thousandths of cards, if some pods left: a line a node and set.

    The view is up to date.
    """
    cards = table.cards.rows(freed.rows)
    cards.used_slots[:] -= freed.slots
    cards.used_memory_mib[:] -= freed.memory_mib
    cards.used_cores[:] -= freed.cores
    states = view.states[positions]
    indices = freed.rows - view.rows[positions[freed.lines], 0]
    looked_at = indices < states.shape[1]
    states[freed.lines[looked_at], indices[looked_at]] = view.number(freed.rows, cards)[looked_at]
    supply = view.costs.split(view.costs.supplied(states))
    used = view.costs.used(supply, view.model[positions], view.cpu[positions])
    stranded: Points = view.cards.free[states].sum(axis=1) - used
    return stranded
