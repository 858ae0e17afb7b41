"""gpuloom's metrics about itself: is it in charge, does it hear the API server, what waits, what was dropped."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuloom.kube import EventRecorder
from gpuloom.scheduler.labelling import Labeller
from gpuloom.scheduler.locks import NodeLocks
from gpuloom.scheduler.metrics import Samples, Series
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.upkeep import Upkeep
from gpuloom.scheduler.watching import Watches


@dataclass(frozen=True, slots=True)
class OwnMetrics:
    """Read from the parts of the process."""

    state: SchedulerState
    watches: Watches
    locks: NodeLocks
    recorder: EventRecorder
    labeller: Labeller
    upkeep: Upkeep

    def series(self) -> Iterator[Series]:
        """All series."""
        state, cards = self.state, self.state.cluster.table
        yield _one("gpuloom_in_charge", "1 while this replica decides and writes", lambda: state.is_in_charge)
        yield _one("gpuloom_table_nodes", "Nodes with cards", lambda: len(cards.positions))
        yield _one("gpuloom_table_rows", "Rows of the card table, free ones too", lambda: len(cards.uuids))
        yield Series("gpuloom_reservations", "Pods that hold cards", ("standing",), self._reservations)
        yield _one("gpuloom_binds_open", "Bindings sent and not settled", lambda: len(state.binding))
        yield _one("gpuloom_pods_refused", "Pods that wait for room", lambda: len(state.refused))
        yield _one("gpuloom_lock_waiters", "Binds that wait for a node lock", lambda: self.locks.waiting)
        yield Series("gpuloom_watch_age_seconds", "Since the API server was heard", ("resource",), self._ages)
        yield Series("gpuloom_watch_relists", "Lists after the first", ("resource",), self._lists, "counter")
        yield Series("gpuloom_watch_failures", "Watches that had to wait", ("resource",), self._failures, "counter")
        yield Series("gpuloom_watch_bad_objects", "Unreadable objects", ("resource",), self._bad_objects, "counter")
        yield _one("gpuloom_events_dropped", "Events not tried", lambda: self.recorder.dropped, "counter")
        yield _one("gpuloom_events_failed", "Events not taken", lambda: self.recorder.failed, "counter")
        yield _one("gpuloom_labels_dropped", "Pods without node label", lambda: self.labeller.dropped, "counter")
        yield _one("gpuloom_reservations_expired", "No Bind came", lambda: self.upkeep.expired, "counter")

    def _reservations(self) -> Samples:
        counts = Counter(reservation.standing.value for reservation in self.state.cluster.ledger)
        return [((standing,), counts[standing]) for standing in ("assumed", "confirmed")]

    def _ages(self) -> Samples:
        now_s = time.monotonic()
        for plural, watched in self.watches.watched.items():
            if watched.reflector.last_event_s is not None:
                yield (plural,), now_s - watched.reflector.last_event_s

    def _lists(self) -> Samples:
        return [((plural,), watched.lists) for plural, watched in self.watches.watched.items()]

    def _failures(self) -> Samples:
        return [((plural,), watched.failures) for plural, watched in self.watches.watched.items()]

    def _bad_objects(self) -> Samples:
        return [((plural,), watched.bad_objects) for plural, watched in self.watches.watched.items()]


def _one(name: str, text: str, value: Callable[[], float], kind: str = "gauge") -> Series:
    return Series(name, text, (), lambda: [((), float(value()))], kind)
