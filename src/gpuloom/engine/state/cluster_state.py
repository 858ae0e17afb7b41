"""The cards of all vendors: a table for each, one ledger and one book of quotas over them."""

from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping

import numpy as np

from gpuloom.engine.state.card_table import NO_NODE, CardTable, NodeCards, Version
from gpuloom.engine.state.closings import Closing
from gpuloom.engine.state.ledger import ANY_VENDOR, CardKey, Reservation
from gpuloom.engine.state.outlook import HostCpu, Outlook
from gpuloom.engine.state.vendor_state import Books, ReservedState, VendorState, group_by_node, open_books
from gpuloom.model.cards import Ints
from gpuloom.model.uuids import card_id
from gpuloom.vendors.catalog import Catalog

_NO_VENDORS = Catalog(())

NodeVersion = tuple[int, Mapping[str, Version]]
"""How a node was at some time: the version of the outlook, and of the tables that have cards of it, by vendor."""


class ClusterState(ReservedState):
    """What :class:`VendorState` is for one vendor, for all of them."""

    def __init__(self, catalog: Catalog, books: Books | None = None) -> None:
        super().__init__(books or open_books(catalog.profiles))
        self.catalog = catalog
        self.outlook = Outlook()
        self._words_of: dict[str, set[str]] = {}
        self._peers: dict[str, list[CardTable]] = {}
        self._states = {profile.word: self._join(VendorState(profile, self._books)) for profile in catalog}
        self._across: dict[tuple[str, str], tuple[tuple[int, int], Ints]] = {}
        # Cards that the tables show as they were, None while they are kept up to date.
        self._late: dict[CardKey, None] | None = None

    def fork(self, nodes: Collection[str] | None = None, also: Iterable[str] = ()) -> "ClusterState":
        """Return a state of its own that can be changed freely and asked everything that this one answers.

        nodes  only these, and what is on them; all if None. Quotas count what namespaces hold on all nodes either way
        also   UIDs of pods on other nodes that can leave as well, which quotas see
        """
        # Of no vendor first, then of those with cards there: making the states of all takes longer than forking a node.
        books = self._books.fork(nodes, also)
        fork = ClusterState(_NO_VENDORS, books)
        fork.catalog, fork.outlook = self.catalog, self.outlook.fork(nodes)
        words_of, there = self._words_of, set(self._states)
        if nodes is not None:
            words_of = {node: self._words_of[node] for node in nodes if node in self._words_of}
            there = set[str]().union(*words_of.values())
        for word, state in self._states.items():
            if word in there or state.remembers(nodes or ()):
                fork._states[word] = fork._join(state.fork(nodes, books))
        # All at once: there may be very many nodes, and few have cards of several vendors.
        fork._words_of.update(words_of)
        several = ((node, sorted(words)) for node, words in words_of.items() if len(words) > 1)
        fork._peers.update((node, [fork._states[word].table for word in words]) for node, words in several)
        if self._late is not None:
            fork._late = dict(self._late)
        return fork

    def _join(self, state: VendorState) -> VendorState:
        """Let a vendor's cards know of those of others."""
        state.table.peers, state.table.outlook = self._peers, self.outlook
        return state

    def __getitem__(self, word: str) -> VendorState:
        """Return the cards of one vendor; where a fork has none of them, it gets to know the vendor now."""
        if word not in self._states:
            self._states[word] = self._join(VendorState(self.catalog[word], self._books))
        return self._states[word]

    @property
    def tables(self) -> Iterator[CardTable]:
        """The card tables, in the order of the vendors' words; in a fork of few nodes, of those known there."""
        return (state.table for state in self._states.values())

    @property
    def registrations(self) -> int:
        """Counts changes of what nodes registered."""
        return sum(table.registrations for table in self.tables)

    def has(self, node: str) -> bool:
        """Tell whether a node has cards of any vendor."""
        return node in self._words_of

    def words_of(self, node: str) -> Iterable[str]:
        """Return the vendors of which a node has cards."""
        return self._words_of.get(node, ())

    def has_others(self, word: str) -> bool:
        """Whether any node has cards of another vendor than this one."""
        return any(state.table.positions for other, state in self._states.items() if other != word)

    def score_of(self, node: str) -> float:
        """Return the score of a node with cards."""
        table = self[min(self._words_of[node])].table
        return float(table.node_scores[table.positions[node]])

    def across(self, word: str, other: str) -> Ints:
        """Return by position in one vendor's table where the same node stands in another's, NO_NODE for nowhere."""
        table, there = self[word].table, self[other].table
        version = table.registrations, there.registrations
        known = self._across.get((word, other))
        if known is None or known[0] != version:
            found = np.zeros(len(table.names), np.int64)
            for name, position in table.positions.items():
                found[position] = there.positions.get(name, NO_NODE)
            known = self._across[word, other] = version, found
        return known[1]

    @property
    def nodes(self) -> KeysView[str]:
        """The nodes that have cards."""
        return self._words_of.keys()

    def registered(self, node: str, word: str) -> NodeCards | None:
        """Return what a node registered of one vendor's cards, None for nothing."""
        return self[word].table.registered(node)

    def find_cordoned(self, reservation: Reservation, closed: frozenset[str] = frozenset()) -> str:
        """Return the id of a card of a reservation that the administrator has closed by now, empty for none.

        ``closed`` are ids of which that is known beside those that are registered so.
        """
        for word in self.words_of(reservation.node):
            registered = self.registered(reservation.node, word)
            if cordoned := closed | (registered.cordoned if registered is not None else frozenset()):
                cards = (card_id(share.uuid) for share, _ in reservation.each_share_of(word))
                if found := next((card for card in cards if card in cordoned), ""):
                    return found
        return ""

    def register(self, node: str, word: str, registered: NodeCards) -> bool:
        """Set a node's cards of one vendor, none to remove them; tell whether that changed anything."""
        words = self._words_of.get(node, set())
        after = words | {word} if registered.cards else words - {word}
        if after != words:
            self._set_words(node, after)
            for other in after - {word}:
                self[other].table.note_peer(node)
        return self[word].register(node, registered)

    def _set_words(self, node: str, words: set[str]) -> None:
        if words:
            self._words_of[node] = words
        else:
            self._words_of.pop(node, None)
        if len(words) > 1:
            self._peers[node] = [self[word].table for word in sorted(words)]
        else:
            self._peers.pop(node, None)

    def note_parts(self, reservation: Reservation) -> None:
        """Remember where parts of cards are in use, and which policies cards will have."""
        for word in reservation.shares:
            if self.catalog.find(word) is not None:
                self[word].note_parts(reservation)

    def is_plain(self, node: str) -> bool:
        """Whether a node's columns follow from its cards and what is held of them, whatever was there before."""
        return all(self[word].is_plain(node) for word in self.words_of(node))

    def version_of(self, node: str) -> NodeVersion:
        """Return what :meth:`has_changed` is to be asked with later."""
        return self.outlook.version, {word: self[word].table.version for word in self.words_of(node)}

    def has_changed(self, node: str, version: NodeVersion) -> bool:
        """Tell whether a node's cards may have changed since, or what is held of them, or the pods to come."""
        outlook, tables = version
        if outlook != self.outlook.version or tables.keys() != set(self.words_of(node)):
            return True
        return any(self[word].table.has_changed(node, one) for word, one in tables.items())

    def set_cpu(self, node: str, cpu: HostCpu | None) -> None:
        """Set the CPU of a node that policies look at, None for no longer known."""
        if self.outlook.set_cpu(node, cpu):
            for word in self.words_of(node):
                self[word].table.note_cpu(node)

    def close(self, closing: Closing) -> bool:
        """Let cards take no new pods until :meth:`reopen` is called with the same holder; tell whether that is new.

        The node and its cards need not be known yet. What the holder closed before is superseded.
        """
        before = self.closings.find(closing.holder)
        if before == closing:
            return False
        self.closings.put(closing)
        self._write_closed({closing.node, before.node if before else closing.node})
        return True

    def reopen(self, holder: str) -> bool:
        """End what a holder closes; tell whether there was anything. Safe to call twice."""
        closing = self.closings.take(holder)
        if closing is not None:
            self._write_closed({closing.node})
        return closing is not None

    def closings_in_effect(self) -> Iterator[Closing]:
        """Give the closings whose node has cards that they close; others wait for such cards to be registered."""
        for closing in self.closings:
            words = set(self.words_of(closing.node))
            if words and (not closing.cards or not words.isdisjoint(closing.cards)):
                yield closing

    def _write_closed(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            for word in self.words_of(node):
                self[word].write_closed(node)

    def postpone(self) -> None:
        """Bring the tables up to date only when :meth:`catch_up` is called: until then nobody may decide.

        Very many reservations at once touch the same cards again and again.
        """
        if self._late is None:
            self._late = {}

    def catch_up(self) -> None:
        """Bring the tables up to date, and keep them so from now on."""
        late, self._late = self._late, None
        self._refresh(late or ())

    def _refresh(self, touched: Iterable[CardKey]) -> None:
        if self._late is not None:
            self._late.update(dict.fromkeys(touched))
            return
        for (node, word), uuids in group_by_node(touched).items():
            for mine in self._states if word == ANY_VENDOR else (word,):
                if state := self._states.get(mine):
                    state.write(node, uuids)
