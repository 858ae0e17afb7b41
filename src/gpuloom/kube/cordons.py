"""Closing cards to new pods, and opening them again, by the node's list of closed cards.

Beside it notes tell which of them are closed for moves, and by whom. Moves open at their end what is on their note,
and who closes a card for good takes it off. A command writes again and again that it still makes them: where it was
killed, somebody else opens what is on its note.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gpuloom.kube.annotations import Annotations, change_annotations
from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import NotFoundError
from gpuloom.kube.resources import NODES
from gpuloom.kube.transport import go_on
from gpuloom.wire.keys import NODE_CORDON, NODE_DEFRAG, NODE_DEFRAG_RENEWED, NODE_MOVING
from gpuloom.wire.objects import Node
from gpuloom.wire.words import decode_list, encode_list


@dataclass(frozen=True, slots=True)
class NodeCard:
    """A card and the node that registered it."""

    node: str
    uuid: str


async def write_cordon(client: KubeClient, card: NodeCard, *, is_closed: bool) -> bool:
    """Close or open a card; tell whether that was necessary.

    It was, too, for one that was closed for moves: now it stays closed when they end. Raises ApiError.
    """
    changes: dict[str, str | None] = {}

    def change(node: Node) -> Annotations:
        write = _add if is_closed else _take
        changes.clear()
        changes.update(write(node, NODE_CORDON, [card.uuid]))
        for note in (NODE_MOVING, NODE_DEFRAG):
            changes.update(_take(node, note, [card.uuid]))
        return changes

    await change_annotations(client, NODES, card.node, change)
    return bool(changes)


class OtherMovesError(Exception):
    """Somebody else makes moves for which these cards are closed; the message names them."""


@dataclass(slots=True)
class MoveClosing:
    """The cards of a node that are closed for somebody's moves, noted to be so.

    note      the annotation that tells which
    cards     those that were not closed before
    renewals  what a command has written to tell that it makes the moves: by the last of them it knows its own note
    """

    client: KubeClient
    node: str
    note: str
    cards: list[str] = field(default_factory=list)
    renewals: set[str] = field(default_factory=set)

    async def close(self, uuids: Sequence[str], recheck: Callable[[], None] = go_on) -> None:
        """Close cards, and note those that are not closed yet.

        On a command's note they stay closed only while :meth:`renew` is called. Raises OtherMovesError where the note
        is another's, or one of the cards is closed for other moves: they would be opened when these end; ApiError, and
        what ``recheck`` raises.
        """
        renewal = self._renewal()

        def change(node: Node) -> Annotations:
            if others := self._list_others(node, uuids):
                self.cards.clear()
                raise OtherMovesError(", ".join(others))
            before = _list(node, NODE_CORDON)
            to_close = [uuid for uuid in uuids if uuid not in before]
            # A write of unknown outcome is tried again: what it closed is ours to open, too.
            self.cards.extend(uuid for uuid in to_close if uuid not in self.cards)
            return _add(node, NODE_CORDON, to_close) | _add(node, self.note, to_close) | (renewal if to_close else {})

        await change_annotations(self.client, NODES, self.node, change, recheck=recheck)

    async def renew(self) -> None:
        """Write that a command still makes the moves, if any of the cards is still closed for them.

        Raises ApiError.
        """
        renewal = self._renewal()
        await change_annotations(self.client, NODES, self.node, lambda node: renewal if self._list_noted(node) else {})

    async def open(self, recheck: Callable[[], None] = go_on) -> Sequence[str]:
        """Open those of the cards that are still noted, take them off the note, and return which they are.

        Raises ApiError, and what ``recheck`` raises.
        """
        opened: dict[str, None] = {}

        def change(node: Node) -> Annotations:
            noted = self._list_noted(node)
            opened.update(dict.fromkeys(noted))
            return _take(node, NODE_CORDON, noted) | _take(node, self.note, noted)

        # With a node that is gone its note is, too.
        with suppress(NotFoundError):
            await change_annotations(self.client, NODES, self.node, change, recheck=recheck)
        return [*opened]

    async def find_opened(self, uuids: Sequence[str]) -> Sequence[str]:
        """Return which of these cards are closed no more, or only for other moves; raises ApiError."""
        node = await self.client.get(NODES, self.node)
        others = self._list_others(node, uuids)
        return [uuid for uuid in uuids if uuid in others or uuid not in _list(node, NODE_CORDON)]

    def _is_ours(self, node: Node) -> bool:
        """Whether the note is. Only one scheduler is in charge; commands may be several, and be taken to be killed."""
        return self.note == NODE_MOVING or node.annotations.get(NODE_DEFRAG_RENEWED) in self.renewals

    def _list_noted(self, node: Node) -> Sequence[str]:
        # Anybody may have written very many there.
        noted = frozenset(_list(node, self.note) if self._is_ours(node) else ())
        return [uuid for uuid in self.cards if uuid in noted]

    def _list_others(self, node: Node, uuids: Sequence[str]) -> Sequence[str]:
        """Return the cards of a node that are closed for other moves, as far as these cards meet them."""
        noted, ours = _list(node, self.note), self._list_noted(node)
        (beside,) = {NODE_MOVING, NODE_DEFRAG} - {self.note}
        return [
            *(uuid for uuid in noted if uuid not in ours),
            *(uuid for uuid in _list(node, beside) if uuid in uuids),
        ]

    def _renewal(self) -> dict[str, str | None]:
        if self.note != NODE_DEFRAG:
            return {}
        # Compared, not read: each is another one, so whole seconds would not do.
        said = datetime.now(UTC).isoformat()
        self.renewals.add(said)
        return {NODE_DEFRAG_RENEWED: said}


def list_closed_for_moves(node: Node) -> Sequence[str]:
    """Return the cards of a node that are noted to be closed for moves of the scheduler."""
    return _list(node, NODE_MOVING)


def list_closed_by_command(node: Node) -> tuple[Sequence[str], str]:
    """Return the cards of a node that are noted to be closed for moves of a command, and when it last wrote so.

    It is empty for one that never does, of an earlier release.
    """
    return _list(node, NODE_DEFRAG), node.annotations.get(NODE_DEFRAG_RENEWED, "")


def _list(node: Node, key: str) -> Sequence[str]:
    return decode_list(node.annotations.get(key, ""))


def _add(node: Node, key: str, uuids: Sequence[str]) -> dict[str, str | None]:
    before = _list(node, key)
    added = [uuid for uuid in uuids if uuid not in before]
    return {key: encode_list([*before, *added])} if added else {}


def _take(node: Node, key: str, uuids: Sequence[str]) -> dict[str, str | None]:
    before, taken = _list(node, key), frozenset(uuids)
    left = [uuid for uuid in before if uuid not in taken]
    if len(left) == len(before):
        return {}
    if left:
        return {key: encode_list(left)}
    is_renewed = key == NODE_DEFRAG and NODE_DEFRAG_RENEWED in node.annotations
    return {key: None, NODE_DEFRAG_RENEWED: None} if is_renewed else {key: None}
