"""Closing cards to new pods, and opening them again, by the node's list of closed cards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuloom.kube.annotations import change_annotations
from gpuloom.kube.client import KubeClient, go_on
from gpuloom.kube.resources import NODES
from gpuloom.wire.keys import NODE_CORDON, NODE_MOVING
from gpuloom.wire.objects import Node
from gpuloom.wire.words import decode_list, encode_list


@dataclass(frozen=True, slots=True)
class CardPlace:
    """A card and the node that registered it."""

    node: str
    uuid: str


async def write_cordon(client: KubeClient, place: CardPlace, *, is_closed: bool) -> bool:
    """Close or open a card; tell whether that was necessary.

    Raises ApiError.
    """
    changed: list[str] = []

    def change(node: Node) -> dict[str, str | None]:
        before = decode_list(node.annotations.get(NODE_CORDON, ""))
        changed[:] = [place.uuid] if (place.uuid in before) != is_closed else []
        return _close(before, changed) if is_closed else _open(before, changed)

    await change_annotations(client, NODES, place.node, change)
    return bool(changed)


async def close_for_moves(
    client: KubeClient,
    node: str,
    uuids: Sequence[str],
    closed: list[str],
    *,
    marked: bool,
    recheck: Callable[[], None] = go_on,
) -> None:
    """Close cards of a node; ``closed`` gets those that are not closed yet, before they are.

    ``marked``: the node is to tell that it was done for moves. Raises ApiError, and what ``recheck`` raises.
    """

    def change(node: Node) -> dict[str, str | None]:
        before = decode_list(node.annotations.get(NODE_CORDON, ""))
        # A write of unknown outcome is tried again: what it closed is ours to open, too.
        closed.extend(uuid for uuid in uuids if uuid not in before and uuid not in closed)
        to_close = [uuid for uuid in closed if uuid not in before]
        mark: dict[str, str | None] = {NODE_MOVING: encode_list(closed)} if marked and to_close else {}
        return _close(before, to_close) | mark

    await change_annotations(client, NODES, node, change, recheck=recheck)


async def open_after_moves(
    client: KubeClient, node: str, uuids: Sequence[str], recheck: Callable[[], None] = go_on
) -> None:
    """Open cards of a node that were closed for moves, and take off the note of it.

    Raises ApiError, and what ``recheck`` raises.
    """

    def change(node: Node) -> dict[str, str | None]:
        before = decode_list(node.annotations.get(NODE_CORDON, ""))
        mark: dict[str, str | None] = {NODE_MOVING: None} if NODE_MOVING in node.annotations else {}
        return _open(before, uuids) | mark

    await change_annotations(client, NODES, node, change, recheck=recheck)


def list_closed_for_moves(node: Node) -> Sequence[str]:
    """Return the cards of a node that are noted to be closed for moves."""
    return decode_list(node.annotations.get(NODE_MOVING, ""))


def _close(before: Sequence[str], uuids: Sequence[str]) -> dict[str, str | None]:
    return {NODE_CORDON: encode_list([*before, *uuids])} if uuids else {}


def _open(before: Sequence[str], uuids: Sequence[str]) -> dict[str, str | None]:
    left = [uuid for uuid in before if uuid not in uuids]
    if len(left) == len(before):
        return {}
    return {NODE_CORDON: encode_list(left) if left else None}
