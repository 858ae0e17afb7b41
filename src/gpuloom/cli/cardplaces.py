"""Which node has a card, of whatever family."""

from collections.abc import Iterable, Iterator

from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.client.names import CARD, drop_kind
from gpuloom.kube import NODES, KubeClient
from gpuloom.kube.cordons import CardPlace
from gpuloom.model.uuids import AmbiguousUuidError, choose_uuid, may_mean
from gpuloom.vendors.catalog import load_shipped
from gpuloom.vendors.hooks import read_cards
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import NODE_CORDON
from gpuloom.wire.objects import Node
from gpuloom.wire.register import decode_register
from gpuloom.wire.words import decode_list

_REGISTER = ("hami.io/node-", "-register")


async def find_card(client: KubeClient, card: str) -> CardPlace:
    """Find the node of a card.

    Raises CommandError when there is none, or several.
    """
    nodes, _ = await client.list_all(NODES)
    text = drop_kind(card, CARD)
    cards = [CardPlace(node.name, uuid) for node in nodes for uuid in _cards_of(node) if may_mean(text, uuid)]
    try:
        uuid = choose_uuid(text, [place.uuid for place in cards])
    except AmbiguousUuidError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    if uuid is None:
        raise CommandError(f"no node has a card {card}: see gpuloom cards")
    found, *others = (place for place in cards if place.uuid == uuid)
    if others:
        nodes_told = ", ".join(place.node for place in (found, *others[:2]))
        raise CommandError(f"several nodes have registered a card {uuid} ({nodes_told}): find out which one has it")
    return found


def _cards_of(node: Node) -> Iterable[str]:
    """Give the cards that a node tells of; closed ones that are gone can be opened too."""
    found = dict.fromkeys((*decode_list(node.annotations.get(NODE_CORDON, "")), *_list_registered(node)))
    for profile in (profile for file in load_shipped() for profile in file.profiles):
        try:
            found.update(dict.fromkeys(card.id for card in read_cards(node, profile).cards))
        except WireError:
            continue
    return found


def _list_registered(node: Node) -> Iterator[str]:
    """Give the cards of every register, also of a family of somebody's own."""
    for key, text in node.annotations.items():
        if key.startswith(_REGISTER[0]) and key.endswith(_REGISTER[1]):
            try:
                yield from (card.id for card in decode_register(text))
            except WireError:
                continue
