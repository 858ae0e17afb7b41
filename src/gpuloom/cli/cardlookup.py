"""Which node has a card, of whatever family."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.client.names import CARD, drop_kind
from gpuloom.kube import NODES, KubeClient
from gpuloom.kube.cordons import NodeCard
from gpuloom.model.card import Card
from gpuloom.model.cardname import NoCardError, SeveralCardsError, find_at, read_card_name
from gpuloom.model.uuids import AmbiguousUuidError, choose_uuid, may_mean
from gpuloom.vendors.catalog import load_shipped
from gpuloom.vendors.hooks import read_cards
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import NODE_CORDON
from gpuloom.wire.objects import Node
from gpuloom.wire.register import decode_register
from gpuloom.wire.words import decode_list

_REGISTER = ("hami.io/node-", "-register")


@dataclass(frozen=True, slots=True)
class _KnownCard:
    """A card that a node tells of; without an index one that is only cordoned, and gone."""

    uuid: str
    index: int | None = None


async def find_card(client: KubeClient, card: str) -> NodeCard:
    """Find a card by its UUID (the beginning will do), ``card/UUID`` or ``NODE/INDEX``.

    Raises CommandError when there is none, or several.
    """
    nodes, _ = await client.list_all(NODES)
    text = drop_kind(card, CARD)
    cards = [NodeCard(node.name, one.uuid) for node in nodes for one in _cards_of(node) if may_mean(text, one.uuid)]
    try:
        uuid = choose_uuid(text, [one.uuid for one in cards])
    except AmbiguousUuidError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    if uuid is None:
        return _find_at(nodes, card, text)
    found, *others = (one for one in cards if one.uuid == uuid)
    if others:
        nodes_told = ", ".join(one.node for one in (found, *others[:2]))
        raise CommandError(f"several nodes have registered a card {uuid} ({nodes_told}): find out which one has it")
    return found


def tell_cordon(place: NodeCard, *, is_closed: bool, changed: bool) -> str:
    """Say in a line that a card is closed or open now, or was already."""
    already = "" if changed else "already "
    return f"card {place.uuid} of node {place.node} {already}{'cordoned' if is_closed else 'uncordoned'}\n"


def _find_at(nodes: Iterable[Node], card: str, text: str) -> NodeCard:
    node, index = read_card_name(text) or ("", "")
    cards = next((_cards_of(one) for one in nodes if one.name == node), None)
    if cards is None:
        raise CommandError(f"no node has a card {card}: see gpuloom cards")
    try:
        return NodeCard(node, find_at(node, index, cards).uuid)
    except NoCardError as error:
        raise CommandError(f"{error}: see gpuloom cards") from error
    except SeveralCardsError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error


def _cards_of(node: Node) -> Iterable[_KnownCard]:
    """Give the cards that a node tells of; closed ones that are gone can be opened too."""
    found = {uuid: _KnownCard(uuid) for uuid in decode_list(node.annotations.get(NODE_CORDON, ""))}
    found |= {card.id: _KnownCard(card.id, card.index) for card in _list_registered(node)}
    for profile in (profile for file in load_shipped() for profile in file.profiles):
        try:
            found |= {card.id: _KnownCard(card.id, card.index) for card in read_cards(node, profile).cards}
        except WireError:
            continue
    return found.values()


def _list_registered(node: Node) -> Iterator[Card]:
    """Give the cards of every register, also of a family of somebody's own."""
    for key, text in node.annotations.items():
        if key.startswith(_REGISTER[0]) and key.endswith(_REGISTER[1]):
            try:
                yield from decode_register(text)
            except WireError:
                continue
