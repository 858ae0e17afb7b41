"""What is in use, as the monitors said last, and the last hour of it. Bounded by the cards that the cluster has."""

from array import array
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from gpuloom.model.card import Card
from gpuloom.web.monitors.hours import Hour, Hours
from gpuloom.wire.monitors import MonitorReport

STEP_S = 60.0
_NOT_KNOWN = -1
_MIB = 2**20
_MOST_BUSY = 100
_MOST_BUSY_OF_POD = 10_000

PodOnCard = tuple[str, str, str]
"""Namespace and name of a pod, and a card's id."""


@dataclass(frozen=True, slots=True)
class MeasuredUse:
    """Memory in MiB and load in per cent, None where they are not known; ``total_mib`` is that of the known cards."""

    memory_mib: int | None = None
    busy_percent: int | None = None
    total_mib: int = 0
    cards: int = 1


NOTHING_KNOWN = MeasuredUse(cards=0)


@dataclass(slots=True)
class _Record:
    """A node: its cards by index, two rows of the hour for the node and for each card after it."""

    indices: dict[str, int]
    answered: float = 0.0
    memory: "array[int]" = field(default_factory=lambda: array("q"))
    busy: "array[int]" = field(default_factory=lambda: array("h"))
    pods: dict[PodOnCard, tuple[int, int]] = field(default_factory=dict)
    hours: Hours = field(default_factory=lambda: Hours(0))
    sum: MeasuredUse = NOTHING_KNOWN


@dataclass(slots=True)
class UseBook:
    """Figures by node. ``why_not`` says why there are none, or not all; empty where all is known.

    total_answered  when the monitor answered whose answer is the oldest of those in ``total``, 0 for never
    """

    clock: Callable[[], float] = lambda: 0.0
    step_s: float = STEP_S
    stale_s: float = 3 * STEP_S
    why_not: str = "the scheduler asks no monitors (--monitor-interval)"
    total: MeasuredUse = NOTHING_KNOWN
    total_answered: float = 0.0
    is_on: bool = False
    _records: dict[str, _Record] = field(default_factory=dict)
    _hours: Hours = field(default_factory=lambda: Hours(2))

    def note(self, node: str, report: MonitorReport, cards: Sequence[Card], held: Collection[PodOnCard]) -> None:
        """Note what a monitor says; of cards and pods that the node does not have, nothing."""
        indices = {card.id: index for index, card in enumerate(cards)}
        record = self._records.get(node)
        if record is None or record.indices != indices:
            record = self._records[node] = _Record(indices, hours=Hours(2 * len(cards) + 2))
        record.answered = self.clock()
        record.memory = array("q", [_NOT_KNOWN]) * len(cards)
        record.busy = array("h", [_NOT_KNOWN]) * len(cards)
        for said in report.cards:
            index = indices.get(said.uuid)
            if index is not None:
                record.memory[index] = _believe(said.memory_bytes, cards[index].memory_mib * _MIB, _MIB)
                record.busy[index] = _believe(said.busy_percent, _MOST_BUSY)
        record.sum = _sum_up(record, cards)
        rows = [_percent(record.sum), record.sum.busy_percent]
        for index, card in enumerate(cards):
            one = _read(record, index, card.memory_mib)
            rows += [_percent(one), one.busy_percent]
        record.hours.put(self._slot(), rows, self._most_held())
        record.pods = {}
        most = sum(card.memory_mib for card in cards) * _MIB
        for pod in report.pods:
            key = (pod.namespace, pod.name, pod.uuid)
            figures = _believe(pod.memory_bytes, most, _MIB), _believe(pod.busy_percent, _MOST_BUSY_OF_POD)
            if key in held and _NOT_KNOWN not in figures:
                record.pods[key] = figures

    def tidy(self, nodes: Collection[str]) -> None:
        """Forget nodes that are gone, and figures that are old; sum up the rest."""
        now = self.clock()
        for name in [name for name in self._records if name not in nodes]:
            del self._records[name]
        for record in self._records.values():
            if now - record.answered > self.stale_s:
                record.memory, record.busy, record.pods = array("q"), array("h"), {}
                record.sum = NOTHING_KNOWN
        summed = [record for record in self._records.values() if record.sum.cards]
        self.total = _add([record.sum for record in summed])
        self.total_answered = min((record.answered for record in summed), default=0.0)
        self._hours.put(self._slot(), [_percent(self.total), self.total.busy_percent], self._most_held())

    def answered(self, node: str) -> float:
        """Return when a node's monitor answered last, 0 for never."""
        record = self._records.get(node)
        return record.answered if record else 0.0

    def card(self, node: str, uuid: str, total_mib: int) -> MeasuredUse | None:
        """Return what is in use of a card."""
        record = self._records.get(node)
        index = record.indices.get(uuid) if record else None
        if record is None or index is None or index >= len(record.memory):
            return None
        found = _read(record, index, total_mib)
        return found if found.memory_mib is not None or found.busy_percent is not None else None

    def node(self, node: str) -> MeasuredUse | None:
        """Return what is in use of a node's cards."""
        record = self._records.get(node)
        return record.sum if record and record.sum.cards else None

    def pod(self, node: str, namespace: str, name: str, uuids: Collection[str]) -> MeasuredUse | None:
        """Return what a pod uses of some cards."""
        record = self._records.get(node)
        found = [record.pods.get((namespace, name, uuid)) for uuid in uuids] if record else []
        known = [one for one in found if one is not None]
        if not known:
            return None
        return MeasuredUse(sum(mib for mib, _ in known), sum(busy for _, busy in known) // len(known), cards=len(known))

    def hour_of(self, node: str, uuid: str = "") -> tuple[Hour, Hour]:
        """Return the hour of a card, or of a node: memory and load."""
        record = self._records.get(node)
        index = (record.indices.get(uuid, -1) if uuid else -1) if record else -1
        if record is None or (uuid and index < 0):
            return (), ()
        return record.hours.read(2 * index + 2, self._slot()), record.hours.read(2 * index + 3, self._slot())

    def hour(self) -> tuple[Hour, Hour]:
        """Return the hour of all cards together: memory and load."""
        return self._hours.read(0, self._slot()), self._hours.read(1, self._slot())

    def _slot(self) -> int:
        return int(self.clock() // self.step_s)

    def _most_held(self) -> int:
        return int(self.stale_s // self.step_s)


def _believe(value: int | None, most: int, unit: int = 1) -> int:
    return value // unit if value is not None and 0 <= value <= most else _NOT_KNOWN


def _read(record: _Record, index: int, total_mib: int) -> MeasuredUse:
    memory, busy = record.memory[index], record.busy[index]
    return MeasuredUse(
        None if memory == _NOT_KNOWN else memory,
        None if busy == _NOT_KNOWN else busy,
        0 if memory == _NOT_KNOWN else total_mib,
    )


def _sum_up(record: _Record, cards: Sequence[Card]) -> MeasuredUse:
    found = [_read(record, index, card.memory_mib) for index, card in enumerate(cards)]
    return _add([one for one in found if one.memory_mib is not None or one.busy_percent is not None])


def _add(uses: Collection[MeasuredUse]) -> MeasuredUse:
    """Add up memory, and take the average of the load over the cards."""
    memory = [one.memory_mib for one in uses if one.memory_mib is not None]
    busy = [(one.busy_percent, one.cards) for one in uses if one.busy_percent is not None]
    counted = sum(cards for _, cards in busy)
    return MeasuredUse(
        sum(memory) if memory else None,
        sum(percent * cards for percent, cards in busy) // counted if counted else None,
        sum(one.total_mib for one in uses),
        sum(one.cards for one in uses),
    )


def _percent(use: MeasuredUse) -> int | None:
    return None if use.memory_mib is None or not use.total_mib else use.memory_mib * 100 // use.total_mib
