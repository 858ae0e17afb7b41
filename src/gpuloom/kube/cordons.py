"""Closing cards to new pods, and opening them again, by the node's list of closed cards.

Beside it notes tell which of them are closed for moves, and by whom. Moves open at their end what is on their note,
and who closes a card for good takes it off. A command writes again and again that it still makes them: where it was
killed, somebody else opens what is on its note.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gpuloom.kube.annotations import Annotations, change_annotations
from gpuloom.kube.client import KubeClient
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


async def close_for_moves(
    client: KubeClient,
    node: str,
    note: str,
    uuids: Sequence[str],
    closed: list[str],
    *,
    recheck: Callable[[], None] = go_on,
) -> None:
    """Close cards of a node, and note it; ``closed`` gets those that are not closed yet, before they are.

    On a command's note they stay closed only while :func:`renew_closing` is called.
    Raises ApiError, and what ``recheck`` raises.
    """

    def change(node: Node) -> Annotations:
        before = _list(node, NODE_CORDON)
        to_close = [uuid for uuid in uuids if uuid not in before]
        # A write of unknown outcome is tried again: what it closed is ours to open, too.
        closed.extend(uuid for uuid in to_close if uuid not in closed)
        renewal = _renewal() if to_close and note == NODE_DEFRAG else {}
        return _add(node, NODE_CORDON, to_close) | _add(node, note, to_close) | renewal

    await change_annotations(client, NODES, node, change, recheck=recheck)


async def renew_closing(client: KubeClient, node: str, uuids: Sequence[str]) -> None:
    """Write that a command still makes the moves for which these cards of a node are closed, if any still is.

    Raises ApiError.
    """

    def change(node: Node) -> Annotations:
        noted = _list(node, NODE_DEFRAG)
        return _renewal() if any(uuid in noted for uuid in uuids) else {}

    await change_annotations(client, NODES, node, change)


async def open_after_moves(
    client: KubeClient, node: str, note: str, uuids: Sequence[str], recheck: Callable[[], None] = go_on
) -> None:
    """Open those cards of a node that are still noted to be closed for moves, and take them off the note.

    Raises ApiError, and what ``recheck`` raises.
    """

    def change(node: Node) -> Annotations:
        noted = _list(node, note)
        to_open = [uuid for uuid in uuids if uuid in noted]
        return _take(node, NODE_CORDON, to_open) | _take(node, note, to_open)

    await change_annotations(client, NODES, node, change, recheck=recheck)


def list_closed_for_moves(node: Node) -> Sequence[str]:
    """Return the cards of a node that are noted to be closed for moves of the scheduler."""
    return _list(node, NODE_MOVING)


def list_closed_by_command(node: Node) -> tuple[Sequence[str], str]:
    """Return the cards of a node that are noted to be closed for moves of a command, and when it last wrote so.

    It is empty for one that never does, of an earlier release.
    """
    return _list(node, NODE_DEFRAG), node.annotations.get(NODE_DEFRAG_RENEWED, "")


def _renewal() -> dict[str, str | None]:
    # Compared, not read: each is another one, so whole seconds would not do.
    return {NODE_DEFRAG_RENEWED: datetime.now(UTC).isoformat()}


def _list(node: Node, key: str) -> Sequence[str]:
    return decode_list(node.annotations.get(key, ""))


def _add(node: Node, key: str, uuids: Sequence[str]) -> dict[str, str | None]:
    before = _list(node, key)
    added = [uuid for uuid in uuids if uuid not in before]
    return {key: encode_list([*before, *added])} if added else {}


def _take(node: Node, key: str, uuids: Sequence[str]) -> dict[str, str | None]:
    before = _list(node, key)
    left = [uuid for uuid in before if uuid not in uuids]
    if len(left) == len(before):
        return {}
    if left:
        return {key: encode_list(left)}
    is_renewed = key == NODE_DEFRAG and NODE_DEFRAG_RENEWED in node.annotations
    return {key: None, NODE_DEFRAG_RENEWED: None} if is_renewed else {key: None}
