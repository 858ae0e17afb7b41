"""The cluster as the engine sees it: registered cards, the ledger over them, and the table made of both."""

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gpuloom.engine.state.card_table import CardTable, NodeCards
from gpuloom.engine.state.closings import Closing, Closings
from gpuloom.engine.state.ledger import ANY_VENDOR, CardKey, Ledger, Reservation
from gpuloom.engine.state.partition_usage import divide
from gpuloom.engine.state.quotas import QuotaBook, find_limited
from gpuloom.engine.state.tenants import count_tenants, expect_policies
from gpuloom.model.mig import MIG_MODE
from gpuloom.vendors.profile import Profile


@dataclass(frozen=True, slots=True)
class Books:
    """What is kept once for the cards of all vendors: who holds what, what quotas allow, which cards are closed."""

    ledger: Ledger
    quotas: QuotaBook
    closings: Closings

    def fork(self, nodes: Collection[str] | None, also: Iterable[str] = ()) -> "Books":
        """Return books of their own, of some nodes, of all if none are named; see :meth:`Ledger.fork`."""
        return Books(self.ledger.fork(nodes, also), self.quotas.fork(), self.closings.fork(nodes))


def open_books(profiles: Sequence[Profile]) -> Books:
    """Return empty books for the cards of some vendors."""
    bits = frozenset(profile.word for profile in profiles if profile.fit.bits)
    return Books(Ledger(bits), QuotaBook(find_limited(profiles)), Closings())


class ReservedState:
    """A state whose cards follow from reservations.

    ledger  the reservations, for reading; changes go through this class
    """

    def __init__(self, books: Books) -> None:
        self._books = books
        self.ledger, self.quotas, self.closings = books.ledger, books.quotas, books.closings

    def assume(self, reservation: Reservation) -> Reservation:
        """Reserve; the next decision sees it. Returns the reservation with its number."""
        entered, touched = self.ledger.assume(reservation)
        self.note_parts(entered)
        self._refresh(touched)
        return entered

    def confirm(self, uid: str) -> None:
        """Note that a pod is bound where it was reserved."""
        self.ledger.confirm(uid)

    def end_init(self, uid: str) -> bool:
        """Give back what only the pod's init containers held; tell whether anything was."""
        touched = self.ledger.end_init(uid)
        self._refresh(touched)
        return bool(touched)

    def forget(self, uid: str) -> bool:
        """End a pod's reservation; tell whether there was one."""
        if self.ledger.find(uid) is None:
            return False
        self._refresh(self.ledger.forget(uid))
        return True

    def note_parts(self, reservation: Reservation) -> None:
        """Remember where parts of cards are in use, and which policies cards will have."""
        raise NotImplementedError

    def _refresh(self, touched: Iterable[CardKey]) -> None:
        """Bring cards up to date with what is held of them."""
        raise NotImplementedError


class VendorState(ReservedState):
    """One vendor's registered cards, reservations and quotas, kept together so that the table is always right.

    profile  the vendor, which says how cards without published profiles can be divided, and who may share a card
    books    those of all vendors, where this is one of several (``cluster_state``)
    """

    def __init__(self, profile: Profile, books: Books | None = None) -> None:
        super().__init__(books or open_books([profile]))
        self.table = CardTable(cap_cores=profile.score.cap_cores)
        self._profile = profile
        # Nodes that have, or whose pods claim, parts of cards: only there does it matter which parts are in use.
        self._divided: set[str] = set()
        # Policies by which cards will share out their cores, until their node shows them: by node, then card.
        self._pending: dict[str, dict[str, str]] = {}
        # The mode is the vendor's own word: other vendors' cards are never divided, whatever their nodes say.
        self._divides = profile.divides
        self._has_tenants = bool(profile.select.policy or profile.select.app_class)

    def fork(self, nodes: Collection[str] | None = None, books: Books | None = None) -> "VendorState":
        """Return a state of its own, to ask "what if"; see :meth:`ClusterState.fork`.

        books  those of the fork of all vendors, where this is a part of it
        """
        fork = VendorState(self._profile, books or self._books.fork(nodes))
        if nodes is None:
            fork.table = self.table.fork()
            fork._divided = set(self._divided)
            fork._pending = {node: dict(policies) for node, policies in self._pending.items()}
            return fork
        fork.table = self.table.fork_nodes(nodes)
        fork._divided = self._divided.intersection(nodes)
        fork._pending = {node: dict(self._pending[node]) for node in nodes if node in self._pending}
        return fork

    def remembers(self, nodes: Collection[str]) -> bool:
        """Tell whether anything is remembered of nodes beside their cards."""
        return not (self._divided.isdisjoint(nodes) and self._pending.keys().isdisjoint(nodes))

    def register(self, node: str, registered: NodeCards) -> bool:
        """Set the cards of a node, none to remove it; tell whether that changed anything."""
        if registered == (self.table.registered(node) or NodeCards(())):
            return False
        self._see_policies(node, registered)
        if registered.cards:
            if self._divides and any(card.mode == MIG_MODE for card in registered.cards):
                self._divided.add(node)
            is_new = self.table.registered(node) is None
            self.table.register(node, registered)
            for held in self.ledger.on_node(node) if is_new and self._has_tenants else ():
                # After a start, pods are known before the cards that they are on.
                self.note_parts(held)
            if node in self._divided or node in self._pending or self.ledger.has_any(node):
                self.write(node, self.ledger.cards_in_use(node, self._profile.word))
            if self.closings.on_node(node):
                self.write_closed(node)
        else:
            self.table.remove(node)
            self._forget_if_unheld(node)
        return True

    def _forget_if_unheld(self, node: str) -> None:
        """Forget what is remembered of a node without cards, unless anything is held there."""
        if not self.ledger.has_any(node):
            self._divided.discard(node)
            self._pending.pop(node, None)

    def note_parts(self, reservation: Reservation) -> None:
        """Remember where parts of cards are in use, and which policies cards will have."""
        if self._divides and reservation.names_parts:
            self._divided.add(reservation.node)
        registered = self.table.registered(reservation.node) if self._has_tenants else None
        if registered is not None:
            shown = {card.id: card.policy for card in registered.cards}
            pending = self._pending.setdefault(reservation.node, {})
            for uuid, policy in expect_policies(reservation, self._profile.word):
                if shown.get(uuid, policy) != policy:
                    pending[uuid] = policy
                elif policy:
                    # Beside a pod that has all cores there is no room: what is left pending words refusals, as in HAMi.
                    pending.pop(uuid, None)

    def _see_policies(self, node: str, registered: NodeCards) -> None:
        """Forget the policies that a node shows now."""
        pending = self._pending.get(node, {})
        for card in registered.cards:
            if pending.get(card.id) == card.policy:
                del pending[card.id]

    def is_plain(self, node: str) -> bool:
        """Whether a node's columns follow from its cards and what is held of them, whatever was there before."""
        return not (self._has_tenants or node in self._divided or self._pending.get(node))

    def closed_on(self, node: str) -> AbstractSet[str]:
        """Return the cards of a node that somebody may hold whose share of them cannot be read."""
        return self.closings.closed(node, self._profile.word, self._known_on(node))

    def closings_of(self, node: str, uuid: str) -> tuple[Closing, ...]:
        """Return what closes one card."""
        return self.closings.of_card(node, self._profile.word, uuid, self._known_on(node))

    def _known_on(self, node: str) -> AbstractSet[str]:
        registered = self.table.registered(node) if self.closings.on_node(node) else None
        return frozenset(card.id for card in registered.cards) if registered else frozenset()

    def write_closed(self, node: str) -> None:
        """Bring a node's cards up to date with what closes them."""
        if self.table.registered(node) is not None:
            self.table.write_closed(node, self.closed_on(node))

    def _refresh(self, touched: Iterable[CardKey]) -> None:
        for (node, word), uuids in group_by_node(touched).items():
            if word in {self._profile.word, ANY_VENDOR}:
                self.write(node, uuids)

    def write(self, node: str, uuids: Iterable[str]) -> None:
        """Bring some cards of a node up to date with what is held of them."""
        registered = self.table.registered(node)
        if registered is None:
            self._forget_if_unheld(node)
            return
        self.table.write_usage(node, {uuid: self.ledger.usage((node, self._profile.word, uuid)) for uuid in uuids})
        if node in self._divided:
            division = divide(registered.cards, self._profile, self.ledger.on_node(node))
            self.table.write_partitions(node, division.partitions, division.faulty)
        if self._has_tenants:
            tenants = count_tenants(self.ledger.on_node(node), self._profile.word)
            self.table.write_tenants(node, tenants, self._pending.get(node, {}))


def group_by_node(touched: Iterable[CardKey]) -> dict[tuple[str, str], list[str]]:
    """Return card ids by node and vendor."""
    by_place: dict[tuple[str, str], list[str]] = {}
    for node, word, uuid in touched:
        by_place.setdefault((node, word), []).append(uuid)
    return by_place
