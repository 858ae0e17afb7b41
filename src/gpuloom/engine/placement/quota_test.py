"""Whether a container gets more than its namespace's quota leaves, with the others of its pod (scheduler 6.10)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.placement.booking import work_out_amounts
from gpuloom.engine.request.demand import ContainerType
from gpuloom.engine.state.node_batch import NodeBatch
from gpuloom.engine.state.usage import Usage, collapse, sum_for_quota
from gpuloom.model.cards import Flags, Ints
from gpuloom.model.request_columns import Headroom, RequestColumns
from gpuloom.model.share import ContainerShares, Share


@dataclass(frozen=True, slots=True)
class QuotaTest:
    """The test for one container of a pod on one node; cards are positions in the batch's list.

    placed  what the pod's containers get so far; ``container_index`` is the one asked about
    """

    compiled: CompiledProfile
    headroom: Headroom
    batch: NodeBatch
    required: RequestColumns
    container_types: Sequence[ContainerType]
    placed: Sequence[ContainerShares]
    container_index: int

    def rejects(self, cards: Ints) -> Flags:
        """Tell of each card whether as many like it as are wanted would be too much."""
        held, wanted = self._hold(self.placed), self.required.cards_at(int(cards[0]))
        memory_mib = held.memory_mib + wanted * self.required.memory_mib[cards]
        cores = held.cores + wanted * self.required.cores_at(cards)
        return (memory_mib > self.headroom.memory_mib) | (cores > self.headroom.cores)

    def exceeds(self, cards: Sequence[int]) -> bool:
        """Tell whether these cards together would be too much."""
        amounts = work_out_amounts(self.compiled, self.batch, self.required, np.array(cards))
        columns = zip(cards, *(column.tolist() for column in amounts), strict=True)
        asked = tuple(
            Share(self.batch.uuids[card], "", memory_mib, cores, slots) for card, slots, memory_mib, cores in columns
        )
        held = self._hold([*self.placed[: self.container_index], asked, *self.placed[self.container_index + 1 :]])
        return held.memory_mib > self.headroom.memory_mib or held.cores > self.headroom.cores

    def _hold(self, placed: Sequence[ContainerShares]) -> Usage:
        """Sum what the pod holds, as quotas count it."""
        return sum_for_quota(collapse(placed, self.container_types).values(), bits=self.compiled.profile.fit.bits)
