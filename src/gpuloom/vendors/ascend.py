"""Huawei Ascend: fixed templates, shares by software, pairs and networks (vendors 4.8)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from gpuloom.model.card import Card
from gpuloom.model.card_matrix import CardMatrix, Chosen, HookTerms
from gpuloom.model.cards import Cards, Ints, Points
from gpuloom.model.memory_percentage import percentage_to_mib
from gpuloom.model.nodecards import Facts, NodeCards
from gpuloom.model.refusal import Refusal
from gpuloom.model.request import Request
from gpuloom.model.request_columns import HookRequest
from gpuloom.vendors.changes import ContainerChange, MutationError, Switches, set_amount
from gpuloom.vendors.decided import Decided
from gpuloom.vendors.links import choose_groups, choose_pairs, refuse_pairs, score_groups
from gpuloom.vendors.profile import Profile, Traits
from gpuloom.vendors.registers import read_registered
from gpuloom.vendors.requests import complete, find_quantity, is_recognized, read_cores, read_count, read_integer
from gpuloom.wire.gojson import encode_json
from gpuloom.wire.objects import Container, Node, Pod
from gpuloom.wire.quantity import decode_strict_integer
from gpuloom.wire.words import INT32_MAX

SOFT = "hami-core"
"""The mode, and the manner of a request, in which software shares a card."""

_NODE_MODE = "hami-vnpu-core"
_NETWORK = "NetworkID"
_LINKED = "Ascend910"
_WHOLE = 100


def trim(memory: int, traits: Traits) -> tuple[int, str] | None:
    """Return the smallest size that holds so much memory and its template, no template for a whole card."""
    for template in sorted(traits.templates, key=lambda one: one.memory_mib):
        if template.memory_mib >= memory:
            return template.memory_mib, template.name
    return (traits.allocatable_mib, "") if memory <= traits.capacity_mib else None


def is_soft(annotations: Mapping[str, str], profile: Profile) -> bool:
    """Tell whether a pod wants cards shared by software."""
    return annotations.get(profile.select.mode) == SOFT


def complete_size(container: Container, pod: Pod, change: ContainerChange, profile: Profile, _: Switches) -> bool:
    """Round memory up to a template, and say it in limits and requests.

    Raises MutationError.
    """
    if not is_recognized(container, profile):
        if profile.container.hide_cards:
            change.append_env("ASCEND_VISIBLE_DEVICES", "")
        return False
    names, soft = profile.resources, is_soft(pod.annotations, profile)
    count = read_integer(container, names.count, profile)
    _complete_pair(container, count, change, profile)
    if not soft and (read_integer(container, names.cores, profile) or 0) > 0:
        raise MutationError(f"{names.cores} is only supported in hami-core (soft split) mode")
    memory = _complete_memory(container, profile, soft=soft)
    if (count or 0) > 1 and not soft and memory != profile.traits.allocatable_mib:
        raise MutationError("vNPU not supported for multiple devices")
    change.set_limit(names.memory, memory)
    change.set_request(names.memory, memory)
    if profile.container.runtime_class and pod.spec.runtime_class_name is None:
        change.set_runtime_class(profile.container.runtime_class)
    return True


def _complete_pair(container: Container, count: int | None, change: ContainerChange, profile: Profile) -> None:
    name = profile.resources.count
    if not profile.traits.in_pairs or count is None or count % 2 == 0:
        return
    if count != 1:
        raise MutationError(f"{profile.word} device request must be 1 or 2*n, got {count}")
    set_amount(container, change, name, 2)


def _complete_memory(container: Container, profile: Profile, *, soft: bool) -> int:
    name = profile.resources.memory
    if name not in container.limits:
        return profile.traits.allocatable_mib
    memory = decode_strict_integer(container.limits[name])
    size = (memory, "") if soft and memory is not None else trim(memory, profile.traits) if memory is not None else None
    if size is None:
        raise MutationError(f"{name} {container.limits[name]} is invalid")
    return size[0]


def read_size(container: Container, annotations: Mapping[str, str], profile: Profile) -> Request | None:
    """Read a request; memory that no template and no card holds makes it unusable."""
    cards, soft = read_count(container, profile), is_soft(annotations, profile)
    memory = _read_memory(container, profile, soft=soft)
    cores = read_cores(container, profile)
    if cards is None or memory is None or cores is None:
        return None
    return complete(profile, cards, memory, cores, SOFT if soft else "")


def _read_memory(container: Container, profile: Profile, *, soft: bool) -> int | None:
    quantity = find_quantity(container, profile.resources.memory)
    if quantity is None:
        return 0
    memory = decode_strict_integer(quantity)
    if memory is None or memory < 0:
        return None
    if not soft and trim(memory, profile.traits) is None:
        return None
    memory_mib = memory * max(profile.request.memory_factor, 1)
    return memory_mib if memory_mib <= INT32_MAX else None


def read_cards(node: Node, profile: Profile) -> NodeCards:
    """Read registered cards, the networks that link them, and whether the node's cards can be shared by software."""
    cards = read_registered(node, profile)
    if profile.word.startswith(_LINKED):
        cards = tuple(replace(card, group=_network(card)) for card in cards)
    said = node.annotations.get(_NODE_MODE)
    return NodeCards(cards, facts={SOFT: profile.traits.soft_split if said is None else said == "true"})


def _network(card: Card) -> str:
    network = dict(card.custom).get(_NETWORK)
    return "" if network is None else str(network)


def need_share(request: Request, cards: Cards, facts: Facts, profile: Profile) -> HookRequest | None:
    """Work out a share; software shares a card in hundredths of its cores, on nodes that can.

    Other nodes give away templates, also to a pod that the webhook has not seen (D-50).
    """
    soft = request.manner == SOFT
    if soft and not facts.get(SOFT):
        return None
    memory_mib = request.memory_mib or percentage_to_mib(cards.total_memory_mib, request.memory_percentage)
    factor = max(profile.request.memory_factor, 1)
    if profile.request.rounds and request.memory_mib and not facts.get(SOFT):
        size = trim(request.memory_mib // factor, profile.traits)
        memory_mib = size[0] * factor if size else memory_mib
    return HookRequest(memory_mib, min(request.cores, _WHOLE), total_cores=_WHOLE if soft else None)


def choose_linked(matrix: CardMatrix, chosen: Chosen, terms: HookTerms, profile: Profile) -> Ints:
    """Choose cards of one network, or whole pairs of those that come in pairs."""
    if profile.traits.in_pairs and chosen.request.cards > 1:
        return choose_pairs(matrix)
    return choose_groups(matrix, chosen, terms, profile)


def refuse_linked(matrix: CardMatrix, at: int, chosen: Chosen, profile: Profile) -> Refusal:
    """Say why a node cannot serve."""
    if profile.traits.in_pairs and chosen.request.cards > 1:
        return refuse_pairs(matrix, at)
    return matrix.refuse(at)


def score_linked(matrix: CardMatrix, chosen: list[Chosen], _terms: HookTerms, profile: Profile) -> Points:
    """Score how many cards of a container are in one network."""
    if not profile.word.startswith(_LINKED):
        return np.zeros(len(matrix.there))
    return score_groups(matrix, chosen, 10.0)


def annotate(decided: Decided, profile: Profile) -> dict[str, str]:
    """Tell the node plugin card, template, memory and cores of every share."""
    entries: list[dict[str, Any]] = []
    for shares, request in zip(decided.shares, decided.requests, strict=True):
        for share in shares:
            is_cut = request is not None and request.manner != SOFT
            size = trim(share.memory_mib, profile.traits) if is_cut else None
            entry = {
                "UUID": share.uuid,
                "temp": size[1] if size else "",
                "memory": share.memory_mib,
                "core": share.cores,
            }
            entries.append({key: value for key, value in entry.items() if value})
    return {f"huawei.com/{profile.word}": encode_json(entries)}
