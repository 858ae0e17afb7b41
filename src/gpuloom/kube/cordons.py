"""Closing a card to new pods, and opening it again, by the node's list of closed cards."""

from dataclasses import dataclass

from gpuloom.kube.annotations import change_annotations
from gpuloom.kube.client import KubeClient
from gpuloom.kube.resources import NODES
from gpuloom.wire.keys import NODE_CORDON
from gpuloom.wire.objects import Node
from gpuloom.wire.words import decode_list, encode_list


@dataclass(frozen=True, slots=True)
class CardPlace:
    """A card and the node that registered it."""

    node: str
    uuid: str


async def write_cordon(client: KubeClient, place: CardPlace, *, is_closed: bool) -> bool:
    """Change the node's list of closed cards; tell whether that was necessary.

    Raises ApiError.
    """
    changed = False

    def change(node: Node) -> dict[str, str | None]:
        nonlocal changed
        closed = decode_list(node.annotations.get(NODE_CORDON, ""))
        if (place.uuid in closed) == is_closed:
            return {}
        changed = True
        left = [*closed, place.uuid] if is_closed else [uuid for uuid in closed if uuid != place.uuid]
        return {NODE_CORDON: encode_list(left) if left else None}

    await change_annotations(client, NODES, place.node, change)
    return changed
