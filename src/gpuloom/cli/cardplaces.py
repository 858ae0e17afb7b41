"""Which node has a card, of whatever family, and whether the card can be cordoned."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.client.names import CARD, drop_kind
from gpuloom.kube import NODES, KubeClient
from gpuloom.kube.cordons import CardPlace
from gpuloom.model.uuids import AmbiguousUuidError, choose_uuid, may_mean
from gpuloom.vendors.catalog import load_shipped
from gpuloom.vendors.hooks import read_cards
from gpuloom.vendors.profile import Profile
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import NODE_CORDON
from gpuloom.wire.objects import Node
from gpuloom.wire.register import decode_register
from gpuloom.wire.words import decode_list

_REGISTER = ("hami.io/node-", "-register")
_CHECK = "cordon"


@dataclass(frozen=True, slots=True)
class FoundCard:
    """A card; its family is None where no shipped one reads what the node says about it."""

    place: CardPlace
    family: Profile | None


async def find_card(client: KubeClient, card: str) -> FoundCard:
    """Find the node of a card.

    Raises CommandError when there is none, or several.
    """
    nodes, _ = await client.list_all(NODES)
    text = drop_kind(card, CARD)
    cards = [found for node in nodes for found in _cards_of(node) if may_mean(text, found.place.uuid)]
    try:
        uuid = choose_uuid(text, [found.place.uuid for found in cards])
    except AmbiguousUuidError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    if uuid is None:
        raise CommandError(f"no node has a card {card}: see gpuloom cards")
    found, *others = (one for one in cards if one.place.uuid == uuid)
    if others:
        nodes_told = ", ".join(one.place.node for one in (found, *others[:2]))
        raise CommandError(f"several nodes have registered a card {uuid} ({nodes_told}): find out which one has it")
    return found


async def find_card_to_close(client: KubeClient, card: str) -> CardPlace:
    """Find the node of a card that takes no new pod once it is cordoned.

    Raises CommandError, as for a card of which that is not so.
    """
    found = await find_card(client, card)
    if why := tell_why_not_closed(found.place, found.family):
        raise CommandError(f"{why}; kubectl cordon {found.place.node} closes the whole node")
    return found.place


def tell_why_not_closed(place: CardPlace, family: Profile | None) -> str:
    """Say why a card cannot be cordoned whose family does not look at cordons; nothing where it can be."""
    if family is None or _heeds_cordons(family):
        return ""
    heeding = dict.fromkeys(one.name for one in _list_families() if _heeds_cordons(one))
    return (
        f"card {place.uuid} of node {place.node} cannot be cordoned: it is of {family.name}, and only cards of "
        f"{' and '.join(heeding)} can"
    )


def _heeds_cordons(family: Profile) -> bool:
    return _CHECK in family.fit.checks


def _list_families() -> Iterator[Profile]:
    return (profile for file in load_shipped() for profile in file.profiles)


def _cards_of(node: Node) -> Iterator[FoundCard]:
    """Give the cards that a node tells of; closed ones that are gone can be opened too."""
    found: dict[str, Profile | None] = dict.fromkeys(decode_list(node.annotations.get(NODE_CORDON, "")))
    found.update(dict.fromkeys(_list_registered(node)))
    for family in _list_families():
        try:
            found.update((card.id, family) for card in read_cards(node, family).cards)
        except WireError:
            continue
    return (FoundCard(CardPlace(node.name, uuid), family) for uuid, family in found.items())


def _list_registered(node: Node) -> Iterator[str]:
    """Give the cards of every register, also of a family of somebody's own."""
    for key, text in node.annotations.items():
        if key.startswith(_REGISTER[0]) and key.endswith(_REGISTER[1]):
            try:
                yield from (card.id for card in decode_register(text))
            except WireError:
                continue
