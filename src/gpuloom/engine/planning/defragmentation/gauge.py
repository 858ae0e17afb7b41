"""How much of what is free on a fork's cards is stranded, now and without some pods (placement quality 3)."""

from collections.abc import Sequence

import numpy as np

from gpuloom.engine.filtering.fragmentation_view import FragmentationView
from gpuloom.engine.filtering.stranded import FreedUsage, strand_without
from gpuloom.engine.planning.defragmentation.card_sets import MovableHolder
from gpuloom.engine.planning.defragmentation.plan import FreeShares
from gpuloom.engine.scoring.fragmentation.workload import WHOLE
from gpuloom.engine.state.card_table import CardTable
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.usage import NOTHING, Usage
from gpuloom.model.cards import Points


class StrandedGauge:
    """Looks at the cards of all vendors of a cluster that somebody changes."""

    def __init__(self, state: ClusterState) -> None:
        self._seen: dict[str, tuple[CardTable, FragmentationView]] = {
            profile.word: (state[profile.word].table, FragmentationView(profile))
            for profile in state.catalog
            if state[profile.word].table.positions
        }

    @property
    def vendors(self) -> Sequence[str]:
        """The vendors that have cards here."""
        return tuple(self._seen)

    def read(self) -> FreeShares:
        """Return the sums over all cards as they are now."""
        free = stranded = 0.0
        for table, view in self._seen.values():
            view.refresh(table)
            free += float(view.free.sum()) / WHOLE
            stranded += float(view.stranded().sum()) / WHOLE
        return FreeShares(free, stranded)

    def fewer_without(self, vendor: str, sets: Sequence[tuple[str, Sequence[MovableHolder]]]) -> Points:
        """Return by how many cards' worth less a node would have stranded if some of its pods left, for many at once.

        sets  the node and the pods, with what they hold of the vendor's cards
        """
        table, view = self._seen[vendor]
        view.refresh(table)
        positions = np.array([table.positions[node] for node, _ in sets], np.int64)
        parts = [
            (line, row, usage.slots, usage.memory_mib, usage.cores)
            for line, (_, holders) in enumerate(sets)
            for row, usage in _sum_up(holders).items()
        ]
        freed = FreedUsage(*np.array(parts, np.int64).reshape(len(parts), len(FreedUsage._fields)).T)
        now: Points = view.stranded()[positions]
        return (now - strand_without(view, table, positions, freed)) / WHOLE


def _sum_up(holders: Sequence[MovableHolder]) -> dict[int, Usage]:
    total: dict[int, Usage] = {}
    for one in holders:
        for row, usage in one.usage.items():
            total[row] = total.get(row, NOTHING) + usage
    return total
