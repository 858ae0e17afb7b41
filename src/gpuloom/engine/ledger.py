"""Who holds what: reservations, and the only ways in which they change.

    (none) --assume--> assumed --confirm--> confirmed
               ^           |                    |
               |           +------ forget ------+--> (none)
               +-- assume again: superseded, with a new number

*Assumed*: decided here, not bound yet. *Confirmed*: the API server shows the pod bound to that node. A reservation is
keyed by the pod's UID and numbered; whoever acts on one remembers the number and stops when it is no longer current.

The ledger is keyed by node name and card id, not by rows, so cards may leave and come back, and pods may be seen before
their node. What a card holds is always summed from its entries, never counted up and down. Source: binding 2.2.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count

from gpuloom.engine.demand import Phase
from gpuloom.engine.usage import Usage, collapse
from gpuloom.model.share import PodShares

CardKey = tuple[str, str]
"""Node name and card id."""


class Standing(Enum):
    """How sure a reservation is."""

    ASSUMED = "assumed"
    CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one pod holds on one node."""

    uid: str
    namespace: str
    name: str
    node: str
    shares: PodShares
    phases: tuple[Phase, ...]
    standing: Standing
    since: float  # seconds of the caller's monotonic clock
    decided_at: int = 0  # Unix seconds of the decision, 0 when it was not made here
    init_over: bool = False
    number: int = 0

    @property
    def full_name(self) -> str:
        """``namespace/name``, as people write it."""
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class Ledger:
    """All reservations. Every change returns the cards it touched."""

    _reservations: dict[str, Reservation] = field(default_factory=dict)
    _entries: dict[CardKey, dict[str, Usage]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __len__(self) -> int:
        return len(self._reservations)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._reservations.values())

    def find(self, uid: str) -> Reservation | None:
        """Return the reservation of a pod."""
        return self._reservations.get(uid)

    def is_current(self, reservation: Reservation) -> bool:
        """Tell whether nothing has superseded or ended this reservation."""
        held = self._reservations.get(reservation.uid)
        return held is not None and held.number == reservation.number

    def assume(self, reservation: Reservation) -> tuple[Reservation, set[CardKey]]:
        """Enter a reservation under a new number; one that the pod had is superseded."""
        touched = self.forget(reservation.uid)
        entered = replace(reservation, number=next(self._numbers))
        return entered, touched | self._enter(entered)

    def confirm(self, uid: str) -> None:
        """Note that the pod is bound where it was reserved."""
        if reservation := self._reservations.get(uid):
            self._reservations[uid] = replace(reservation, standing=Standing.CONFIRMED)

    def end_init(self, uid: str) -> set[CardKey]:
        """Give back what only the init containers held."""
        reservation = self._reservations.get(uid)
        if reservation is None or reservation.init_over:
            return set()
        touched = self.forget(uid)
        return touched | self._enter(replace(reservation, init_over=True))

    def forget(self, uid: str) -> set[CardKey]:
        """End a reservation; safe to call twice."""
        reservation = self._reservations.pop(uid, None)
        if reservation is None:
            return set()
        touched = {(reservation.node, uuid) for uuid in self._usages(reservation)}
        for key in touched:
            del self._entries[key][uid]
            if not self._entries[key]:
                del self._entries[key]
        return touched

    def usage(self, key: CardKey) -> Usage:
        """Sum what is held of one card."""
        return sum(self._entries.get(key, {}).values(), Usage())

    def held_cards(self, nodes: Iterable[str]) -> set[CardKey]:
        """Return the cards of these nodes of which something is held."""
        wanted = set(nodes)
        return {key for key in self._entries if key[0] in wanted}

    def _enter(self, reservation: Reservation) -> set[CardKey]:
        self._reservations[reservation.uid] = reservation
        touched = set()
        for uuid, usage in self._usages(reservation).items():
            key = (reservation.node, uuid)
            self._entries.setdefault(key, {})[reservation.uid] = usage
            touched.add(key)
        return touched

    @staticmethod
    def _usages(reservation: Reservation) -> dict[str, Usage]:
        return dict(collapse(reservation.shares, reservation.phases, init_over=reservation.init_over))
