"""Enflame: cards in slices, of the profiles that a node offers (vendors 4.9.1)."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gpuloom.model.card import Card
from gpuloom.model.cards import Cards
from gpuloom.model.nodecards import Facts, NodeCards
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.model.request_columns import HookRequest
from gpuloom.model.share import ContainerShares, Share
from gpuloom.vendors.changes import ContainerChange, MutationError, Switches
from gpuloom.vendors.decided import Decided
from gpuloom.vendors.profile import Profile
from gpuloom.vendors.registers import name_card
from gpuloom.vendors.requests import find_quantity
from gpuloom.wire.errors import WireError
from gpuloom.wire.gojson import decode_json, encode_json
from gpuloom.wire.objects import Container, Node, Pod
from gpuloom.wire.quantity import decode_strict_integer
from gpuloom.wire.register import NoCardsError, check_count, check_ids
from gpuloom.wire.words import INT32_MAX, Natural32

SLICES: Final = "slices"
"""The manner of a request for a number of slices; without it a request is by size."""

ASSIGNED: Final = "assigned-containers"

_PROFILES = "profiles"
_MINOR = "minor"
_PROFILE = re.compile(r"(\d{1,4})g\.(\d{1,6})gb", re.ASCII)
_MOST_PROFILES = 64
"""Ten times what a card offers: every decision looks at all of them."""
_WHOLE = 100
_MIB = 1024


class _Device(msgspec.Struct, frozen=True):
    index: str = ""
    minor: str = ""
    capacity: int | str = 0


class _Capacity(msgspec.Struct, frozen=True):
    devices: list[_Device] = []
    profiles: dict[str, str] = {}


def read_sliced_cards(node: Node, profile: Profile) -> NodeCards:
    """Read cards and the profiles that they can be cut into.

    Raises WireError, NoCardsError when the node readably has none.
    """
    key = profile.cards.register
    if key not in node.annotations:
        raise NoCardsError(f"annotation not found {key}")
    try:
        said = decode_json(node.annotations[key], _Capacity)
        check_count(len(said.devices))
    except WireError as error:
        raise WireError(f"{key}: {error}") from error
    profiles = _sort_profiles(said.profiles)
    if not profiles:
        raise WireError(f"no valid drs profiles found on node {node.name}")
    if len(profiles) > _MOST_PROFILES:
        raise WireError(f"{key}: {len(profiles)} profiles, more than {_MOST_PROFILES}")
    if not said.devices:
        raise NoCardsError(f"no drs devices found on node {node.name}")
    memory_mib = max(gb for _, gb, _, _ in profiles) * _MIB
    cards = tuple(_make_card(node, profile, at, one, memory_mib) for at, one in enumerate(said.devices))
    try:
        check_ids([card.id for card in cards])
    except WireError as error:
        raise WireError(f"{key}: {error}") from error
    return NodeCards(cards, facts={_PROFILES: profiles})


def _sort_profiles(profiles: Mapping[str, str]) -> list[tuple[int, int, str, str]]:
    """Slices, GB, name and number of each profile; one without slices could be given without end."""
    found = ((_PROFILE.fullmatch(name), number) for name, number in profiles.items())
    read = ((int(match[1]), int(match[2]), match[0], number) for match, number in found if match)
    return sorted(one for one in read if one[0])


def _make_card(node: Node, profile: Profile, position: int, device: _Device, memory_mib: int) -> Card:
    capacity = decode_strict_integer(device.capacity)
    if capacity is None or not 0 < capacity <= INT32_MAX:
        raise WireError(f"invalid drs capacity on node {node.name}")
    is_number = device.index.isascii() and device.index.isdigit() and len(device.index) <= 9
    index = int(device.index) if is_number else position
    return Card(
        id=name_card(profile, node.name, index),
        index=index,
        count=capacity,
        memory_mib=memory_mib,
        cores=_WHOLE,
        model=profile.word,
        healthy=True,
        custom=((_MINOR, device.minor or str(index)),),
    )


def complete_slices(container: Container, _pod: Pod, change: ContainerChange, profile: Profile, _: Switches) -> bool:
    """Check the amounts and say them in limits and requests.

    Raises MutationError.
    """
    names = profile.resources
    known = (names.count, names.memory, names.cores)
    amounts = {name: quantity for name in known if (quantity := find_quantity(container, name)) is not None}
    if not amounts:
        return False
    values = {name: decode_strict_integer(quantity) or 0 for name, quantity in amounts.items()}
    for name in (names.count, names.memory):
        if values.get(name, 1) <= 0:
            raise MutationError(f"{name} must be greater than 0")
    if not 0 < values.get(names.cores, 1) <= _WHOLE:
        raise MutationError(f"{names.cores} must be in range (0,100]")
    for name, value in values.items():
        change.set_limit(name, value)
        change.set_request(name, value)
    return True


def read_slices(container: Container, _annotations: Mapping[str, str], profile: Profile) -> Request | None:
    """Read a request: so many slices, or so much memory and cores; always of one card."""
    names = profile.resources
    amounts = [_read(container, name) for name in (names.count, names.memory, names.cores)]
    if all(amount is None for amount in amounts) or any(amount is not None and amount <= 0 for amount in amounts):
        return None
    slices, memory, cores = amounts
    if slices is not None:
        return Request(profile.word, 1, slices, PERCENTAGE_NOT_SET, 0, SLICES)
    return Request(profile.word, 1, memory or 0, PERCENTAGE_NOT_SET, cores or 0)


def _read(container: Container, name: str) -> int | None:
    """None when nothing is said, -1 for what cannot be used."""
    quantity = find_quantity(container, name)
    if quantity is None:
        return None
    value = decode_strict_integer(quantity)
    return value if value is not None and 0 <= value <= INT32_MAX else -1


def need_profile(request: Request, _cards: Cards, facts: Facts, _profile: Profile) -> HookRequest | None:
    """Find the smallest profile of the node that will do."""
    profiles = facts[_PROFILES]
    most_slices, most_gb = max(one[0] for one in profiles), max(one[1] for one in profiles)
    wanted_gb = request.memory_mib
    if wanted_gb > 2 * most_gb:
        wanted_gb = -(-wanted_gb // _MIB)
    for slices, gb, _, _ in profiles:
        cores = -(-slices * _WHOLE // most_slices)
        by_size = gb >= wanted_gb and cores >= request.cores
        if slices == request.memory_mib if request.manner == SLICES else by_size:
            return HookRequest(gb * _MIB, cores, slots=slices)
    return None


def annotate(decided: Decided, _profile: Profile) -> dict[str, str]:
    """Tell the node plugin the card, and the profile of every container."""
    first = next(decided.each_share())
    card = decided.cards[first.uuid]
    assigned: dict[str, Any] = {}
    for name, given in zip(decided.names, decided.shares, strict=True):
        for share in given:
            profile = _profile_of(share, decided.facts)
            assigned[name] = {
                "allocated": False,
                "request": share.slots,
                "profileID": profile[3],
                "profileName": profile[2],
            }
    return {
        "enflame.com/gcu-assigned-index": str(card.index),
        "enflame.com/gcu-assigned-id": str(card.index),
        "enflame.com/gcu-assigned-minor": str(dict(card.custom)[_MINOR]),
        "enflame.com/gcu-request-size": str(first.slots),
        ASSIGNED: encode_json(assigned),
    }


def _profile_of(share: Share, facts: Facts) -> tuple[int, int, str, str]:
    profiles: list[tuple[int, int, str, str]] = facts[_PROFILES]
    return next(one for one in profiles if one[0] == share.slots and one[1] * _MIB == share.memory_mib)


class _Assigned(msgspec.Struct, frozen=True):
    request: Natural32 = 0


def recall_slots(
    shares: tuple[ContainerShares, ...], names: tuple[str, ...], annotations: Mapping[str, str]
) -> tuple[ContainerShares, ...]:
    """Return shares with their slices, which the device list does not say."""
    try:
        assigned = decode_json(annotations.get(ASSIGNED, "{}"), dict[str, _Assigned])
    except WireError:
        return shares
    slots = [max(assigned[name].request, 1) if name in assigned else 1 for name in names]
    return tuple(
        tuple(_with_slots(s, slots[at] if at < len(slots) else 1) for s in given) for at, given in enumerate(shares)
    )


def _with_slots(share: Share, slots: int) -> Share:
    return Share(share.uuid, share.vendor, share.memory_mib, share.cores, slots)
