"""The card table: all cards of all nodes as rows, kept up to date in place.

The rows of a node stay beside each other. A node that comes, or whose number of cards changes, gets the rows of one
that left with as many, else new ones at the end. So every change costs as much as one node has cards, whatever the size
of the cluster, and the table is as long as there were cards at once.

A node has the same position as long as it is there, and afterwards until some hundreds are gone. Then their names are
forgotten, and new nodes get their positions. So what has a place for each node is as long as there were nodes at once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from gpuloom.engine.bounded import FifoDict
from gpuloom.engine.state.card_rows import FIRST_CAPACITY, NO_NODE, CardRows, double
from gpuloom.engine.state.change_log import ChangeLog
from gpuloom.engine.state.interner import Interner
from gpuloom.engine.state.node_batch import NodeBatch, lay_out_one
from gpuloom.engine.state.node_scalars import NodeScalars
from gpuloom.engine.state.node_scores import write_scores
from gpuloom.engine.state.numbering import Numbering
from gpuloom.engine.state.outlook import Outlook
from gpuloom.engine.state.partitions import GeometryPartition, Partition
from gpuloom.engine.state.snapshot import Snapshot
from gpuloom.engine.state.tenants import NO_TENANTS, Tenants, sum_groups
from gpuloom.engine.state.usage import Usage
from gpuloom.engine.state.vacancies import Vacancies
from gpuloom.model.card import Card
from gpuloom.model.cards import (
    BY_ADMINISTRATOR,
    BY_GEOMETRY,
    BY_PROFILES,
    BY_UNREADABLE,
    UNDIVIDED,
    CardNumbers,
    Flags,
    Ints,
    Scores,
)
from gpuloom.model.nodecards import Facts, NodeCards

_ROWS_A_NODE = 4000
"""So many rows are filtered, or scored, by columns in the time that one node takes card by card."""
_ROWS_TO_BEGIN = 12_000
"""So many more could be in the time that columns take however short they are."""

_MOST_PLAIN = 128
"""So many nodes' cards are kept as plain numbers: decisions go to few nodes at a time."""
_MOST_STATES = 512
"""So many states of nodes have a number, 1.3 KB each; pods that come and go leave a few of them again and again."""
_Integer = TypeVar("_Integer", np.int32, np.int64)

Version = tuple[int, int]
"""How often registrations changed, and where the change log ended: whoever remembers something says how old it is."""
NEVER: Version = (-1, -1)


class CardTable:
    """The cards of all nodes, what is used of them, and what follows from that for each node.

    names        of the nodes, by position, empty where there is none; position 0 is nobody's. No place of a list gets
                 another name: where one is forgotten, ``names`` is another list
    positions    by name, of the nodes that have cards now
    starts       first row of each node, ``ends`` one behind its last
    cards        the columns; ``uuids``, card id by row
    cap_cores    whether no card counts as using more cores than it has
    numbering    what columns say by number
    partitions   state of divided cards, by row
    change_log   which nodes changed
    registrations  counts changes of what nodes registered
    facts_of     the number of what a node says of all its cards together, by position
    peers        tables with cards of other vendors on the same nodes, by name; a node's score is of all of them
    outlook      the pods to come, and the CPU of nodes
    """

    def __init__(self, *, cap_cores: bool = False) -> None:
        self.numbering = Numbering()
        self.facts_of: Ints = np.zeros(FIRST_CAPACITY, np.int64)
        self.peers: Mapping[str, Sequence[CardTable]] = {}
        self.outlook = Outlook()
        self.cap_cores = cap_cores
        self._has_groups = False
        self.names: list[str] = [""]
        self.starts: Ints = np.zeros(FIRST_CAPACITY, np.int64)
        self.ends: Ints = np.zeros(FIRST_CAPACITY, np.int64)
        self.partitions: dict[int, Partition] = {}
        self.change_log = ChangeLog()
        self.registrations = 0
        self.positions: dict[str, int] = {}
        self._vacancies = Vacancies()
        self._registered: dict[str, NodeCards] = {}
        self._plain: FifoDict[int, NodeScalars] = FifoDict(_MOST_PLAIN)
        self._states: Interner[tuple[bytes, int]] = Interner(_MOST_STATES)
        self._snapshots: WeakSet[Snapshot] = WeakSet()
        self._node_scores: Scores = np.zeros(FIRST_CAPACITY, np.float32)
        self._unscored: set[int] = set()
        self._rows = CardRows()
        self.uuids, self.cards = self._rows.uuids, self._rows.cards

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """Model and mode, by the number in the column."""
        return self.numbering.kinds

    @property
    def facts(self) -> list[Facts]:
        """What nodes say of all their cards together, each once."""
        return self.numbering.facts

    @property
    def namings(self) -> int:
        """How often a position got a name."""
        return self._vacancies.namings

    @property
    def node_scores(self) -> Scores:
        """HAMi's node score, by position."""
        self.score_changed()
        return self._node_scores

    def score_changed(self) -> None:
        """Bring the scores of nodes up to date."""
        if self._unscored:
            write_scores(self, self._unscored, self._node_scores)
            self._unscored.clear()

    @property
    def version(self) -> Version:
        """What :meth:`changed_since` is to be asked with later."""
        return self.registrations, self.change_log.mark

    def changed_since(self, version: Version) -> set[int] | None:
        """Return the nodes that changed since then, None where nobody knows, or what they registered changed."""
        registrations, mark = version
        changed = self.change_log.since(mark) if registrations == self.registrations else None
        return None if changed is None else set(changed)

    def has_changed(self, node: str, version: Version) -> bool:
        """Tell whether a node may have changed since then."""
        changed = self.changed_since(version)
        return changed is None or self.positions.get(node) in changed

    @property
    def few(self) -> int:
        """Up to so many nodes take less time one by one than all of them together, as columns."""
        return (len(self.uuids) + _ROWS_TO_BEGIN) // _ROWS_A_NODE

    def registered(self, node: str) -> NodeCards | None:
        """Return what a node registered."""
        return self._registered.get(node)

    def rows_of(self, position: int) -> slice:
        """Return the rows of a node."""
        return slice(self.starts.item(position), self.ends.item(position))

    def row(self, node: str, uuid: str) -> int | None:
        """Return the row of a card, None when the table does not have it."""
        position = self.positions.get(node)
        return None if position is None else self._rows.find(self.rows_of(position), uuid)

    @property
    def known_facts(self) -> list[Facts]:
        """What the nodes that have cards now say of all their cards, each once."""
        positions = np.fromiter(self.positions.values(), np.int64, len(self.positions))
        return [self.facts[number] for number in np.unique(self.facts_of[positions]).tolist()]

    @property
    def facts_of_cards(self) -> Ints:
        """Which of the facts hold for each card, by row."""
        return self.facts_of[self.cards.node]

    def has_divided(self, rows: slice) -> bool:
        """Tell whether any of some rows is a card divided in hardware."""
        return bool(self.partitions) and any(row in self.partitions for row in range(rows.start, rows.stop))

    def find_faulty(self) -> list[int]:
        """Return the rows of cards that are unhealthy only because of what pods hold of them."""
        sick = np.flatnonzero((self.cards.healthy == 0) & (self.cards.node != NO_NODE))
        return [row for row in sick.tolist() if self._is_registered_healthy(row)]

    def _is_registered_healthy(self, row: int) -> bool:
        position = int(self.cards.node[row])
        return self._registered[self.names[position]].cards[row - self.rows_of(position).start].healthy

    def cards_of(self, position: int) -> list[CardNumbers]:
        """Return a node's cards one by one, with plain numbers in place of columns."""
        return self._read_plain(position).cards

    def state_of(self, position: int) -> int:
        """Return a number that nodes have in common while their cards are alike in all but their ids."""
        return self._states.number((self._rows.state_of(self.rows_of(position)), self.facts_of.item(position)))

    def lay_out(self, positions: Ints) -> tuple[Ints, Flags]:
        """Return the rows of nodes that have cards, a line for each, and which are its own: others repeat its first."""
        starts, ends = self.starts[positions], self.ends[positions]
        rows = starts[:, None] + np.arange(int((ends - starts).max(initial=0)))
        there = rows < ends[:, None]
        return np.where(there, rows, starts[:, None]), there

    def copy_nodes(self, positions: Ints) -> NodeBatch:
        """Return the cards of nodes that have some, to place a pod on."""
        if len(positions) == 1:
            return self.copy_node(int(positions[0]))
        laid_out, there = self.lay_out(positions)
        rows = laid_out[there]
        cells = np.cumsum(there).reshape(there.shape) - 1
        return self._copy(positions.tolist(), rows, rows.tolist(), cells, there)

    def copy_node(self, position: int) -> NodeBatch:
        """Return the cards of one node, to place a pod on: the same without looking for rows."""
        rows = self.rows_of(position)
        cells, there = lay_out_one(rows.stop - rows.start)
        return self._copy([position], rows, range(rows.start, rows.stop), cells, there)

    def _copy(
        self, positions: list[int], rows: Ints | slice, row_numbers: Sequence[int], cells: Ints, there: Flags
    ) -> NodeBatch:
        divided = self.partitions
        return NodeBatch(
            table=self,
            cards=self.cards.rows(rows),
            cells=cells,
            there=there,
            uuids=[self.uuids[row] for row in row_numbers],
            partitions={at: divided[row] for at, row in enumerate(row_numbers) if row in divided} if divided else {},
            registered=[self._registered[self.names[position]] for position in positions],
            facts_numbers=self.facts_of[positions],
        )

    def fork(self) -> "CardTable":
        """Return a table of its own that is as this one is now; its peers are still to be named."""
        self.score_changed()
        twin = CardTable(cap_cores=self.cap_cores)
        twin._rows, twin._vacancies = self._rows.fork(), self._vacancies.copy()
        twin.uuids, twin.cards = twin._rows.uuids, twin._rows.cards
        twin.names, twin.positions, twin._registered = self.names.copy(), self.positions.copy(), self._registered.copy()
        twin.starts, twin.ends, twin.facts_of = self.starts.copy(), self.ends.copy(), self.facts_of.copy()
        twin.numbering = self.numbering.fork()
        twin.partitions, twin._node_scores = self.partitions.copy(), self._node_scores.copy()
        twin.outlook, twin.registrations, twin._has_groups = self.outlook, self.registrations, self._has_groups
        return twin

    def fork_nodes(self, nodes: Iterable[str]) -> "CardTable":
        """Return the same of some nodes only, as far as they have cards; it has positions and rows of its own."""
        twin = CardTable(cap_cores=self.cap_cores)
        twin.numbering, twin.outlook, twin._has_groups = self.numbering.fork(), self.outlook, self._has_groups
        there = [node for node in dict.fromkeys(nodes) if node in self.positions]
        if not there:
            return twin
        for node in there:
            twin.positions[node] = twin._claim_position(node)
            twin._registered[node] = self._registered[node]
        twin.registrations = len(there)
        before = np.array([self.positions[node] for node in there])
        laid_out, is_own = self.lay_out(before)
        rows = laid_out[is_own]
        now, counts = slice(1, len(there) + 1), is_own.sum(axis=1)
        twin._rows = self._rows.pick(rows, np.repeat(np.arange(1, len(there) + 1), counts))
        twin.uuids, twin.cards = twin._rows.uuids, twin._rows.cards
        twin.ends[now] = counts.cumsum()
        twin.starts[now] = twin.ends[now] - counts
        twin.facts_of[now], twin._node_scores[now] = self.facts_of[before], self._node_scores[before]
        twin._unscored = {at for at, position in enumerate(before.tolist(), 1) if position in self._unscored}
        if self.partitions:
            old_rows = enumerate(rows.tolist())
            twin.partitions = {at: self.partitions[row] for at, row in old_rows if row in self.partitions}
        return twin

    def snapshot(self) -> "Snapshot":
        """Return all nodes as they are now, for reading; later changes do not show in it."""
        snapshot = Snapshot(self)
        self._snapshots.add(snapshot)
        return snapshot

    def register(self, node: str, registered: NodeCards) -> None:
        """Set the cards of a node; usage starts at nothing."""
        before = self._registered.get(node)
        self.registrations += 1
        position = self._claim_position(node) if before is None else self.positions[node]
        self._prepare_change(position)
        self._release_rows(position)
        self._claim_rows(position, len(registered.cards))
        self._registered[node] = registered
        self.positions[node] = position
        self.facts_of[position] = self.numbering.number_facts(registered.facts)
        self._write_registered(position, registered)
        self._summarize(position)

    def remove(self, node: str) -> None:
        """Take a node and its cards out."""
        if node not in self._registered:
            return
        # While the node is still as it was: a snapshot may have to keep it.
        self._prepare_change(self.positions[node])
        del self._registered[node]
        position = self.positions.pop(node)
        self.registrations += 1
        self._release_rows(position)
        self._summarize(position)
        self.names = self._vacancies.leave(node, position, self.names)

    def write_usage(self, node: str, usages: Mapping[str, Usage]) -> None:
        """Set what is used of some cards of a node; cards that the table does not have are ignored."""
        position = self.positions[node]
        rows, plain = self.rows_of(position), self._plain.get(position)
        self._keep_for_snapshots(position)
        for uuid, usage in usages.items():
            row = self._rows.find(rows, uuid)
            if row is not None:
                self.cards.used_slots[row] = usage.slots
                self.cards.used_memory_mib[row] = usage.memory_mib
                self.cards.used_cores[row] = usage.cores
                if plain is not None:
                    plain.use(row - rows.start, usage)
        if self._has_groups:
            sum_groups(self.cards.rows(rows))
            self._plain.pop(position, None)
        self._summarize(position)

    def write_partitions(self, node: str, partitions: Mapping[str, Partition], faulty: set[str]) -> None:
        """Set the state of a node's divided cards, and which cards must not be used."""
        for row, card in self._change(node):
            partition = partitions.get(card.id)
            self.cards.healthy[row] = card.healthy and card.id not in faulty
            if partition is not None:
                self.partitions[row] = partition
                self.cards.division[row] = BY_GEOMETRY if isinstance(partition, GeometryPartition) else BY_PROFILES
                self.cards.free_instance_mib[row] = partition.largest_free_mib

    def write_closed(self, node: str, closed: AbstractSet[str]) -> None:
        """Set which of a node's cards somebody may hold whose share of them cannot be read."""
        cordoned = self._registered[node].cordoned
        for row, card in self._change(node):
            by_administrator = BY_ADMINISTRATOR if card.id in cordoned else 0
            self.cards.cordoned[row] = by_administrator + (BY_UNREADABLE if card.id in closed else 0)

    def write_tenants(self, node: str, tenants: Mapping[str, Tenants], pending: Mapping[str, str]) -> None:
        """Set who shares the cards of a node, and which policies its cards will have; the others are as registered."""
        number = self.numbering.number_word
        for row, card in self._change(node):
            found = tenants.get(card.id, NO_TENANTS)
            self.cards.online[row], self.cards.offline[row] = found.online, found.offline
            expected = pending.get(card.id)
            self.cards.policy[row] = number(card.policy) if expected is None else -number(expected) - 1

    def _change(self, node: str) -> Iterator[tuple[int, Card]]:
        """Give the rows and cards of a node, to be changed; its score stays the same."""
        position = self.positions[node]
        self._prepare_change(position)
        yield from enumerate(self._registered[node].cards, self.starts.item(position))
        self.change_log.note(position)

    def _write_registered(self, position: int, registered: NodeCards) -> None:
        """Write what a node registered into its rows; who holds something of it is written afterwards."""
        rows, columns, number = self.rows_of(position), self.cards, self.numbering.number_word
        self._rows.clear(rows)
        columns.node[rows], columns.division[rows] = position, UNDIVIDED
        self.uuids[rows] = [card.id for card in registered.cards]
        for row, card in enumerate(registered.cards, rows.start):
            columns.numa[row], columns.index[row] = card.numa, card.index
            columns.kind[row] = self.numbering.number_kind(card.model, card.mode)
            columns.healthy[row] = card.healthy
            columns.count[row], columns.total_cores[row] = card.count, card.cores
            columns.total_memory_mib[row] = card.memory_mib
            if card.group or card.policy:
                columns.group[row], columns.policy[row] = number(card.group), number(card.policy)
                self._has_groups |= bool(card.group)
            if card.id in registered.cordoned:
                columns.cordoned[row] = BY_ADMINISTRATOR

    def _claim_position(self, node: str) -> int:
        position = self._vacancies.claim(node, self.names)
        if position == len(self.starts):
            self.starts, self.ends, self.facts_of = double(self.starts), double(self.ends), double(self.facts_of)
            self._node_scores = double(self._node_scores)
        return position

    def _claim_rows(self, position: int, count: int) -> None:
        rows = self._rows.claim(count)
        self.cards = self._rows.cards
        self.starts[position], self.ends[position] = rows.start, rows.stop

    def _release_rows(self, position: int) -> None:
        rows = self.rows_of(position)
        self._rows.release(rows)
        for row in range(rows.start, rows.stop):
            self.partitions.pop(row, None)
        self.starts[position] = self.ends[position] = 0

    def _summarize(self, position: int) -> None:
        """Note that any of a node's cards changed. What follows for its score is worked out when somebody asks."""
        self._unscored.add(position)
        self.change_log.note(position)
        if self.peers:
            for peer in self.peers.get(self.names[position], ()):
                if peer is not self:
                    peer.note_peer(self.names[position])

    def note_peer(self, node: str) -> None:
        """Note that cards of another vendor changed on a node: its score is another one."""
        if (position := self.positions.get(node)) is not None:
            self._unscored.add(position)
            self.change_log.note(position)

    def note_cpu(self, node: str) -> None:
        """Note that the CPU of a node is another one, as far as it has cards here."""
        if (position := self.positions.get(node)) is not None:
            self.change_log.note(position)

    def sums_of(self, node: str) -> list[int]:
        """Return slots, cores and memory of a node: used, then in total."""
        return self._read_plain(self.positions.get(node, NO_NODE)).sums

    def _read_plain(self, position: int) -> NodeScalars:
        """Return a node's cards as plain numbers."""
        known = self._plain.get(position)
        if known is None:
            cards = self._rows.list_numbers(self.rows_of(position))
            known = self._plain[position] = NodeScalars(cards, cap_cores=self.cap_cores)
        return known

    def add_up(self, column: Ints | Flags, sum_type: type[_Integer]) -> NDArray[_Integer]:
        """Add up a column over the cards of each node, by position; in 32 bits that takes a third of the time."""
        # The rows of a node follow each other.
        sums = np.zeros(len(column) + 1, sum_type)
        np.cumsum(column, out=sums[1:])
        nodes = slice(len(self.names))
        found: NDArray[_Integer] = sums[self.ends[nodes]] - sums[self.starts[nodes]]
        return found

    def _prepare_change(self, position: int) -> None:
        """Forget a node's plain numbers, and let those who read the table as it was keep what is about to change."""
        self._plain.pop(position, None)
        self._keep_for_snapshots(position)

    def _keep_for_snapshots(self, position: int) -> None:
        # Nearly always there is no snapshot, and going through a weak set costs more than asking.
        if self._snapshots:
            for snapshot in self._snapshots:
                snapshot.keep(position)


__all__ = ["NEVER", "NO_NODE", "CardTable", "NodeCards", "Version"]
