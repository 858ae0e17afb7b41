"""Metax: whole cards scored by what the node says, and shares with policies, classes and link zones (vendors 4.7)."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np

from gpuloom.model.card import Card
from gpuloom.model.card_matrix import NO_CARD, CardMatrix, Chosen, HookTerms, first_turns, group_sizes
from gpuloom.model.cards import Cards, Flags, Ints, Points
from gpuloom.model.memory_percentage import percentage_to_mib
from gpuloom.model.nodecards import Facts, NodeCards
from gpuloom.model.request import Request
from gpuloom.model.request_columns import HookRequest
from gpuloom.model.share import ONLINE
from gpuloom.vendors.changes import ContainerChange, MutationError, Switches
from gpuloom.vendors.decided import Decided
from gpuloom.vendors.profile import Profile
from gpuloom.vendors.registers import count_cards
from gpuloom.vendors.requests import complete, find_amount, is_recognized, read_cores, read_count
from gpuloom.wire.errors import WireError
from gpuloom.wire.gojson import decode_json, decode_list_of, encode_json
from gpuloom.wire.objects import Container, Node, Pod
from gpuloom.wire.quantity import decode_strict_integer
from gpuloom.wire.register import NoCardsError, check_count, check_ids
from gpuloom.wire.words import INT32_MAX, Int32, Natural32

BEST_EFFORT: Final = "best-effort"
POLICIES: Final = (BEST_EFFORT, "fixed-share", "burst-share")
CLASSES: Final = (ONLINE, "offline")

_WHOLE = 100
_MIB = 2**20
_BEST = 2000.0
_LOSSES: Final = {"binpack": "metax-tech.com/gpu.topology.losses", "spread": "metax-tech.com/gpu.topology.scores"}
_LINK = 10


# Whole cards.


def read_whole_cards(node: Node, profile: Profile) -> NodeCards:
    """Read cards from the capacity, and how much a node loses by giving so many of them."""
    losses = {key: _read_table(node.annotations[key]) for key in _LOSSES.values() if key in node.annotations}
    return NodeCards(count_cards(node, profile), facts=losses)


def _read_table(text: str) -> dict[str, int]:
    try:
        return decode_json(text, dict[str, int])
    except WireError:
        return {}


def score_losses(matrix: CardMatrix, chosen: list[Chosen], terms: HookTerms, _profile: Profile) -> Points:
    """Score by the node's own table for as many cards as the pod gets."""
    number = sum(np.count_nonzero(one.columns != NO_CARD, axis=1) for one in chosen)
    key = _LOSSES.get(terms.node_policy, "")
    return np.array(
        [
            _BEST - facts[key].get(str(n), 0) if key in facts else 0.0
            for facts, n in zip(matrix.facts, np.broadcast_to(number, len(matrix.there)).tolist(), strict=True)
        ],
        np.float64,
    )


# Shares.


class _Device(msgspec.Struct, frozen=True):
    uuid: str = ""
    model: str = ""
    total_count: Natural32 = msgspec.field(default=0, name="totaldevcount")
    total_compute: Natural32 = msgspec.field(default=0, name="totalcompute")
    total_vram: Natural32 = msgspec.field(default=0, name="totalvram")
    numa: Int32 = 0
    healthy: bool = False
    qos_policy: str = msgspec.field(default="", name="qospolicy")
    link_zone: Int32 = msgspec.field(default=0, name="linkzone")


def read_zoned_cards(node: Node, profile: Profile) -> NodeCards:
    """Read cards in Metax's own form.

    Raises WireError, NoCardsError when the node readably has none.
    """
    key = profile.cards.register
    if not node.annotations.get(key, "").strip():
        raise NoCardsError(f"annos not found {key}")
    try:
        devices = decode_list_of(node.annotations[key], _Device)
        check_count(len(devices))
        check_ids([device.uuid for device in devices])
    except WireError as error:
        raise WireError(f"{key}: {error}") from error
    if not devices:
        raise NoCardsError("no sdevice found on node")
    return NodeCards(tuple(_make_card(index, device) for index, device in enumerate(devices)))


def _make_card(index: int, device: _Device) -> Card:
    return Card(
        id=device.uuid,
        index=index,
        count=device.total_count,
        memory_mib=device.total_vram,
        cores=device.total_compute,
        model=device.model,
        numa=device.numa,
        healthy=device.healthy,
        group=str(device.link_zone) if device.link_zone > 0 else "",
        policy=device.qos_policy,
    )


def complete_policy(container: Container, pod: Pod, change: ContainerChange, profile: Profile, _: Switches) -> bool:
    """Check class and policy, and set the policy where the pod names none.

    Raises MutationError.
    """
    if not is_recognized(container, profile):
        return False
    keys, annotations = profile.select, pod.annotations
    app_class = annotations.get(keys.app_class)
    if app_class is not None:
        if app_class not in CLASSES:
            raise MutationError(f"{keys.app_class} must be set one of [{', '.join(CLASSES)}]")
        if read_count(container, profile) != 1:
            raise MutationError("app-class pod must request single device")
        if app_class == ONLINE:
            return True
    policy = annotations.get(keys.policy)
    if policy is None:
        change.annotate(keys.policy, BEST_EFFORT)
    elif policy not in POLICIES:
        raise MutationError(f"{keys.policy} must be set one of [{', '.join(POLICIES)}]")
    return True


def read_share(container: Container, annotations: Mapping[str, str], profile: Profile) -> Request | None:
    """Read a request; memory without a unit is in GiB. What online pods ask for is not held against cores."""
    cards, cores = read_count(container, profile), read_cores(container, profile)
    memory_mib = _read_memory_mib(container, profile)
    if cards is None or cores is None or memory_mib is None:
        return None
    return complete(profile, cards, memory_mib, cores, annotations.get(profile.select.app_class, ""))


def _read_memory_mib(container: Container, profile: Profile) -> int | None:
    quantity = find_amount(container, profile.resources.memory, profile)
    value = 0 if quantity is None else decode_strict_integer(quantity)
    if value is None:
        return None
    has_unit = any(letter.isalpha() for letter in str(quantity or ""))
    memory_mib = value // _MIB if has_unit else value * max(profile.request.memory_factor, 1)
    return memory_mib if 0 <= memory_mib <= INT32_MAX else None


def need_classed_share(request: Request, cards: Cards, _facts: Facts, _profile: Profile) -> HookRequest:
    """Work out a share; an online pod takes no cores."""
    memory_mib = request.memory_mib or percentage_to_mib(cards.total_memory_mib, request.memory_percentage)
    return HookRequest(memory_mib, 0 if request.manner == ONLINE else request.cores)


def choose_zones(matrix: CardMatrix, chosen: Chosen, terms: HookTerms, _profile: Profile) -> Ints:
    """Choose by class, or whole cards of one link zone where one has enough, else as cards are tried."""
    nothing = np.zeros(matrix.there.shape, np.int64)
    has_choice = (np.count_nonzero(matrix.fits, axis=1) > matrix.wanted)[:, None]
    cards = matrix.cards
    if terms.app_class == ONLINE:
        only_offline = (cards.offline > 0) & (cards.online == 0)
        keys = (only_offline, np.where(only_offline, cards.offline, 0), cards.online, cards.offline)
        return matrix.choose(*(np.where(has_choice, key, nothing) for key in keys))
    if terms.app_class or chosen.request.cores != _WHOLE:
        return matrix.choose(nothing)
    zones = cards.group
    size = np.where(zones > 0, group_sizes(zones, matrix.fits), matrix.width + 1)
    first = first_turns(zones, matrix.fits, matrix.turn)
    # A zone that has enough comes first, the smallest of these; without one, the smallest zones are used up.
    too_small = (size < matrix.wanted[:, None]) | (zones == 0)
    return matrix.choose(*(np.where(has_choice, key, nothing) for key in (too_small, size, first)))


def score_zones(matrix: CardMatrix, chosen: list[Chosen], terms: HookTerms, _profile: Profile) -> Points:
    """Score online pods by their neighbours, whole cards by the links that they have and that they leave."""
    if terms.app_class == ONLINE:
        cards, taken = matrix.cards, _mark(matrix, chosen)
        only_offline = (cards.offline > 0) & (cards.online == 0)
        each = np.where(only_offline, -100 * cards.offline, -20 * cards.online - 2 * cards.offline)
        return np.asarray((each * taken).sum(axis=1), np.float64)
    if terms.link_aware and (whole := [one for one in chosen if one.request.cores == _WHOLE]):
        available, taken = matrix.there & (matrix.cards.used_slots == 0), _mark(matrix, whole)
        gain = _count_links(matrix, taken)
        loss = _count_links(matrix, available) - gain - _count_links(matrix, available & ~taken)
        return (10 * gain - loss).astype(np.float64)
    return np.zeros(len(matrix.there))


def _mark(matrix: CardMatrix, chosen: list[Chosen]) -> Flags:
    """Mark the cells that any of these containers gets."""
    marks = np.zeros((len(matrix.there), matrix.width + 1), bool)
    for one in chosen:
        np.put_along_axis(marks, np.where(one.columns == NO_CARD, matrix.width, one.columns), values=True, axis=1)
    return marks[:, : matrix.width]


def _count_links(matrix: CardMatrix, counted: Flags) -> Ints:
    linked = counted & (matrix.cards.group > 0)
    pairs = np.where(linked, group_sizes(matrix.cards.group, linked) - 1, 0).sum(axis=1) // 2
    return np.asarray(pairs * _LINK, np.int64)


def annotate(decided: Decided, _profile: Profile) -> dict[str, str]:
    """Tell the node plugin card, cores and memory of every share, container by container."""
    containers: list[list[dict[str, Any]]] = []
    for shares in decided.shares:
        entries = ({"uuid": one.uuid, "compute": one.cores, "vRam": one.memory_mib} for one in shares)
        containers.append([{key: value for key, value in entry.items() if value} for entry in entries])
    return {"metax-tech.com/gpu-devices-allocated": encode_json(containers)}
