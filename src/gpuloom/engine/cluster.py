"""The cluster as the engine sees it: registered cards, the ledger over them, and the table made of both."""

from collections.abc import Callable, Sequence

from gpuloom.engine.ledger import CardKey, Ledger, Reservation
from gpuloom.engine.table import CardTable
from gpuloom.model.card import Card


class Cluster:
    """Registered cards and reservations, kept together so that the table is right after every change."""

    def __init__(self) -> None:
        self._registered: dict[str, tuple[Card, ...]] = {}
        self._table: CardTable | None = CardTable({})
        self._ledger = Ledger()

    @property
    def ledger(self) -> Ledger:
        """The reservations, for reading; changes go through this class."""
        return self._ledger

    @property
    def table(self) -> CardTable:
        """The card table as of now. It is made anew when cards were registered since; usage changes in place."""
        if self._table is None:
            self._table = CardTable(self._registered)
            self._write_usage(self._ledger.held_cards(self._registered))
        return self._table

    @property
    def registered(self) -> dict[str, tuple[Card, ...]]:
        """The cards of every node that registered some."""
        return dict(self._registered)

    def register(self, node: str, cards: Sequence[Card]) -> bool:
        """Set the cards of a node, none to remove it; tell whether that changed anything."""
        if tuple(cards) == self._registered.get(node, ()):
            return False
        if cards:
            self._registered[node] = tuple(cards)
        else:
            del self._registered[node]
        self._table = None
        return True

    def assume(self, reservation: Reservation) -> Reservation:
        """Reserve; the next decision sees it. Returns the reservation with its number."""
        entered, touched = self._ledger.assume(reservation)
        self._write_usage(touched)
        return entered

    def confirm(self, uid: str) -> None:
        """Note that a pod is bound where it was reserved."""
        self._ledger.confirm(uid)

    def end_init(self, uid: str) -> bool:
        """Give back what only the pod's init containers held; tell whether anything was."""
        return self._release(self._ledger.end_init, uid)

    def forget(self, uid: str) -> bool:
        """End a pod's reservation; tell whether there was one."""
        return self._release(self._ledger.forget, uid)

    def _release(self, end: Callable[[str], set[CardKey]], uid: str) -> bool:
        touched = end(uid)
        self._write_usage(touched)
        return bool(touched)

    def _write_usage(self, keys: set[CardKey]) -> None:
        if self._table is not None:
            for node, uuid in keys:
                self._table.write_usage(node, uuid, self._ledger.usage((node, uuid)))
