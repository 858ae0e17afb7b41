"""The cluster as the engine sees it: registered cards, the ledger over them, and the table made of both."""

from collections.abc import Iterable

from gpuloom.engine.division import divide
from gpuloom.engine.ledger import CardKey, Ledger, Reservation
from gpuloom.engine.quota import QuotaBook
from gpuloom.engine.table import CardTable, NodeCards
from gpuloom.model.mig import MIG_MODE
from gpuloom.vendors.profile import Geometries


class Cluster:
    """Registered cards, reservations and quotas, kept together so that the table is right after every change.

    geometries: how cards without published profiles can be divided
    """

    def __init__(self, geometries: Geometries = ()) -> None:
        self.table = CardTable()
        self.quotas = QuotaBook()
        self._ledger = Ledger()
        self._geometries = geometries
        # Nodes that have, or whose pods claim, parts of cards: only there does it matter which parts are in use.
        self._divided: set[str] = set()

    @property
    def ledger(self) -> Ledger:
        """The reservations, for reading; changes go through this class."""
        return self._ledger

    def register(self, node: str, registered: NodeCards) -> bool:
        """Set the cards of a node, none to remove it; tell whether that changed anything."""
        if registered == (self.table.registered(node) or NodeCards(())):
            return False
        if registered.cards:
            if any(card.mode == MIG_MODE for card in registered.cards):
                self._divided.add(node)
            self.table.register(node, registered)
            if node in self._divided or self._ledger.has_any(node):
                self._write(node, (card.id for card in registered.cards))
        else:
            self.table.remove(node)
        return True

    def assume(self, reservation: Reservation) -> Reservation:
        """Reserve; the next decision sees it. Returns the reservation with its number."""
        entered, touched = self._ledger.assume(reservation)
        if entered.names_parts:
            self._divided.add(entered.node)
        self._refresh(touched)
        return entered

    def confirm(self, uid: str) -> None:
        """Note that a pod is bound where it was reserved."""
        self._ledger.confirm(uid)

    def end_init(self, uid: str) -> bool:
        """Give back what only the pod's init containers held; tell whether anything was."""
        touched = self._ledger.end_init(uid)
        self._refresh(touched)
        return bool(touched)

    def forget(self, uid: str) -> bool:
        """End a pod's reservation; tell whether there was one."""
        if self._ledger.find(uid) is None:
            return False
        self._refresh(self._ledger.forget(uid))
        return True

    def _refresh(self, touched: Iterable[CardKey]) -> None:
        by_node: dict[str, list[str]] = {}
        for node, uuid in touched:
            by_node.setdefault(node, []).append(uuid)
        for node, uuids in by_node.items():
            self._write(node, uuids)

    def _write(self, node: str, uuids: Iterable[str]) -> None:
        registered = self.table.registered(node)
        if registered is None:
            return
        self.table.write_usage(node, {uuid: self._ledger.usage((node, uuid)) for uuid in uuids})
        if node in self._divided:
            division = divide(registered.cards, self._geometries, self._ledger.on_node(node))
            self.table.write_partitions(node, division.partitions, division.faulty)
