"""Remembered placements: which nodes take a pod of several containers, by what the pod asks for.

For such pods single cards do not decide, so the pod is placed on nodes to see whether they take it. A node that did not
change since gives the same answer to a pod of the same class; only the others are asked again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuloom.engine.bounded import LruCache
from gpuloom.engine.placement.placer import BatchResult, Unplaced
from gpuloom.engine.request.demand import CardSelector, ContainerType, Demand, Demands, PlacementPreferences
from gpuloom.engine.state.card_table import CardTable
from gpuloom.model.cards import Ints, Scores
from gpuloom.model.reasons import Reason
from gpuloom.model.request import Request
from gpuloom.model.request_columns import UNBOUNDED, Headroom

UNTRIED, TAKES, REFUSES = 0, 1, 2
MOST_CLASSES = 16
"""A class takes up to 0.5 MB at 5,000 nodes."""
MOST_SHORT_LIVED = 4
"""Classes that are of use only until the pod in question is decided about."""


class PlacementClass(msgspec.Struct, frozen=True, gc=False):
    """All that the answer of a node depends on beside its cards; never the pod.

    headroom  what the namespace's quota leaves, where that may matter
    """

    asked: tuple[tuple[ContainerType, Request | None], ...]
    selector: CardSelector
    preferences: PlacementPreferences
    headroom: Headroom = UNBOUNDED

    @property
    def is_short_lived(self) -> bool:
        """Whether others of this class hardly follow: quotas change with every pod, cards are rarely named twice."""
        return self.headroom != UNBOUNDED or self.selector.names_uuids


def placement_class_of(demand: Demand, headroom: Headroom = UNBOUNDED) -> PlacementClass:
    """Return what a pod has in common with others that nodes answer alike."""
    asked = tuple((container.type, container.request) for container in demand.containers)
    return PlacementClass(asked, demand.selector, demand.preferences, headroom)


DemandClass = tuple[tuple[str, str, PlacementClass], ...]
"""What pods have in common that fit whenever one of them fits: vendor, namespace (quotas) and class, each."""


def demand_class_of(demands: Demands) -> DemandClass:
    """Return what a pod has in common with others that fit whenever it fits."""
    return tuple((word, demand.namespace, placement_class_of(demand)) for word, demand in demands.items())


@dataclass(slots=True)
class PlacementCache:
    """The answers of nodes, by position.

    answers  UNTRIED, TAKES or REFUSES
    extra    what the vendor adds to the score of a node that takes the pod
    unplaced why not, of those that refuse
    """

    answers: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    extra: Scores = field(default_factory=lambda: np.zeros(0, np.float32))
    unplaced: dict[int, Unplaced] = field(default_factory=dict)
    _known: dict[tuple[tuple[tuple[Reason, int], ...], int, int], Unplaced] = field(default_factory=dict)
    _mark: int = -1

    def note(self, positions: Ints, result: BatchResult) -> None:
        """Remember what nodes say. Refusals that say the same are one object, so that few texts are ever made."""
        self.answers[positions] = np.where(result.takes, TAKES, REFUSES)
        self.extra[positions] = result.extra
        for row, answer in result.unplaced.items():
            refusal = answer.refusal
            key = (tuple(refusal.counts.items()), refusal.total, answer.turn)
            self.unplaced[int(positions[row])] = self._known.setdefault(key, answer)

    def as_before(self, changed: Iterable[int], count: int) -> "PlacementCache":
        """Return a copy for a table as this one's was, with so many positions, before some nodes changed."""
        copy = PlacementCache(self.answers[:count].copy(), self.extra[:count].copy())
        copy.unplaced, copy._known, copy._mark = dict(self.unplaced), dict(self._known), 0
        copy._forget([position for position in changed if position < len(copy.answers)])
        return copy

    def untried(self, positions: Ints) -> Ints:
        """Return those nodes that have not answered."""
        return positions[self.answers[positions] == UNTRIED]

    def refresh(self, table: CardTable) -> None:
        """Forget the answers of nodes that changed."""
        changed = table.change_log.since(self._mark) if self._mark >= 0 else None
        if changed is None:
            self.answers[:] = UNTRIED
            self.unplaced.clear()
            self._known.clear()
        more = len(table.names) - len(self.answers)
        if more > 0:
            self.answers = np.append(self.answers, np.zeros(more, np.uint8))
            self.extra = np.append(self.extra, np.zeros(more, np.float32))
        self._forget(changed or ())
        self._mark = table.change_log.mark

    def _forget(self, positions: Iterable[int]) -> None:
        for position in positions:
            self.answers[position] = UNTRIED
            self.unplaced.pop(position, None)


@dataclass(frozen=True, slots=True)
class _Origin:
    """What a table was forked from, and when: there nodes may have answered, too."""

    caches: "PlacementCaches"
    table: CardTable
    mark: int

    def find(self, placement_class: PlacementClass, count: int) -> PlacementCache | None:
        """Return what nodes answered there, as far as they did not change since the fork."""
        cache = self.caches.find(self.table, placement_class)
        changed = None if cache is None else self.table.change_log.since(self.mark)
        return None if cache is None or changed is None else cache.as_before(changed, count)


@dataclass(slots=True)
class PlacementCaches:
    """The placement caches of the classes of pods that were asked about last."""

    _lasting: LruCache[PlacementClass, PlacementCache] = field(default_factory=lambda: LruCache(MOST_CLASSES))
    _short_lived: LruCache[PlacementClass, PlacementCache] = field(default_factory=lambda: LruCache(MOST_SHORT_LIVED))
    _origin: _Origin | None = None

    def fork(self, table: CardTable) -> "PlacementCaches":
        """Return caches for a fork of the table that is made now; nodes that answered here need not answer there."""
        return PlacementCaches(_origin=_Origin(self, table, table.change_log.mark))

    def recall(self, table: CardTable, placement_class: PlacementClass) -> PlacementCache:
        """Return what nodes answered to pods of a class, as far as they did not change since."""
        cache = self.find(table, placement_class)
        if cache is None:
            known = self._origin and self._origin.find(placement_class, len(table.names))
            cache = known or PlacementCache()
            cache.refresh(table)
            self._caches_of(placement_class).keep(placement_class, cache)
        return cache

    def find(self, table: CardTable, placement_class: PlacementClass) -> PlacementCache | None:
        """Return the same, None where nobody has asked for such a pod."""
        cache = self._caches_of(placement_class).find(placement_class)
        if cache is not None:
            cache.refresh(table)
        return cache

    def _caches_of(self, placement_class: PlacementClass) -> LruCache[PlacementClass, PlacementCache]:
        return self._short_lived if placement_class.is_short_lived else self._lasting

    def forget_all(self) -> None:
        """Forget everything; the next pods are placed on all nodes again."""
        self._lasting.clear()
        self._short_lived.clear()
        self._origin = None
