"""From a node to its cards: the common ways, and what hooks build on (vendors 1.3)."""

from collections.abc import Collection

from msgspec.structs import replace

from gpuloom.model.card import Card
from gpuloom.model.nodecards import MOST_MODELS, NodeCards
from gpuloom.vendors.profile import Profile
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Node
from gpuloom.wire.pairscores import decode_pair_scores
from gpuloom.wire.quantity import decode_strict_integer
from gpuloom.wire.register import NoCardsError, check_count, decode_register
from gpuloom.wire.words import INT32_MAX, SEPARATORS

NO_CARDS = frozenset({"", "[]"})
"""A missing annotation, or one without a card, removes the cards; a broken one keeps them (scheduler B-27)."""

_NOT_IN_IDS = SEPARATORS | {"["}
"""Behind a bracket a device list says which part of a card a pod has."""


def read_common(node: Node, profile: Profile) -> NodeCards:
    """Read cards by the common rules.

    Raises WireError, NoCardsError when the node readably has none.
    """
    if profile.cards.source == "capacity":
        return NodeCards(count_cards(node, profile))
    scores = node.annotations.get(profile.cards.pair_scores)
    cards = read_registered(node, profile)
    return NodeCards(cards, {} if scores is None else _decode_scores(profile, scores))


def read_registered(node: Node, profile: Profile) -> tuple[Card, ...]:
    """Read the cards of the register annotation.

    Raises WireError, naming the annotation.
    """
    key = profile.cards.register
    text = node.annotations.get(key, "")
    if text.strip() in NO_CARDS:
        raise NoCardsError(f"annos not found {key}" if key not in node.annotations else "no gpu found on node")
    try:
        cards = decode_register(text)
    except NoCardsError:
        raise
    except WireError as error:
        raise WireError(f"{key}: {error}") from error
    if profile.cards.set_cores:
        cards = tuple(replace(card, cores=profile.cards.set_cores) for card in cards)
    return cards


def _decode_scores(profile: Profile, text: str) -> dict[str, dict[str, int]]:
    try:
        return {uuid: dict(peers) for uuid, peers in decode_pair_scores(text).items()}
    except WireError as error:
        raise WireError(f"{profile.cards.pair_scores}: {error}") from error


def check_nameable(card: Card, profile: Profile) -> None:
    """Refuse a card that no device list could name as a whole: no pod could be told that it has the card.

    Raises WireError, naming the annotation.
    """
    model = card.model if profile.share.typed_by_model else ""
    if not card.id or not (_NOT_IN_IDS.isdisjoint(card.id) and SEPARATORS.isdisjoint(model)):
        what = f"id {card.id[:80]!r}" + (f" and type {model[:80]!r}" if model else "")
        raise WireError(f"{profile.cards.register}: a card with {what} cannot be named in a device list")


def check_models(models: Collection[str], profile: Profile) -> None:
    """Refuse more models than a node can have.

    Raises WireError, naming the annotation.
    """
    if len(models) > MOST_MODELS:
        raise WireError(f"{profile.cards.register}: {len(models)} models are more than a node can have ({MOST_MODELS})")


def read_capacity(node: Node, name: str) -> int:
    """Return a node's capacity of a resource, 0 when there is none or it is no integer."""
    quantity = (node.status.capacity or {}).get(name) if name else None
    value = None if quantity is None else decode_strict_integer(quantity)
    return max(value or 0, 0)


def check_capacity(cards: int, name: str) -> None:
    """Refuse a capacity that stands for more cards than a node can have: millions may be a typing error.

    Raises WireError, naming the resource.
    """
    try:
        check_count(cards)
    except WireError as error:
        raise WireError(f"{name}: {error}") from error


def count_cards(node: Node, profile: Profile) -> tuple[Card, ...]:
    """Return the cards that a node's capacity stands for.

    Raises NoCardsError when it has none, WireError when it says more than any node or card can have.
    """
    source, names = profile.cards, profile.resources
    unit = names.cores if source.unit == "cores" else names.count
    capacity = read_capacity(node, unit)
    if not capacity:
        raise NoCardsError(f"device not found {unit}")
    number = -(-capacity // source.per_card)
    check_capacity(number, unit)
    memory_mib = source.memory_mib
    if not memory_mib and names.memory:
        factor = max(profile.request.memory_factor, 1)
        memory_mib = read_capacity(node, names.memory) * factor * source.per_card // capacity
        if memory_mib > INT32_MAX:
            raise WireError(f"{names.memory}: {memory_mib} MiB are more than a card can have ({INT32_MAX})")
    return tuple(
        Card(
            id=name_card(profile, node.name, index),
            index=index,
            count=source.count,
            memory_mib=memory_mib,
            cores=source.cores,
            model=profile.word,
            numa=int(source.numa_halves and index >= number / 2),
            healthy=True,
        )
        for index in range(number)
    )


def name_card(profile: Profile, node: str, index: int) -> str:
    """Return the id of a card that its node does not name."""
    return profile.cards.id.replace("{index}", str(index)).replace("{node}", node)
