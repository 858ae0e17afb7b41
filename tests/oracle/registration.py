"""What a node says about its cards: register annotation, MIG profiles, pair scores (wire protocol 2.1, 2.2)."""

import json
from collections.abc import Mapping
from typing import Any

from gpuloom.wire.errors import WireError
from gpuloom.wire.register import decode_register
from oracle.records import MigProfile, Placement, RegisteredCard

REGISTER = "hami.io/node-nvidia-register"
PAIR_SCORE = "hami.io/node-nvidia-score"


class RegistrationError(ValueError):
    """The node's cards cannot be read."""


class NoCardsError(RegistrationError):
    """The node says that it has no cards."""


def read_cards(annotations: Mapping[str, str]) -> tuple[RegisteredCard, ...]:
    """Read a node's cards in registration order.

    Raises NoCardsError without annotation or cards, RegistrationError when something is undecodable.
    """
    text = annotations.get(REGISTER)
    if text is None:
        raise NoCardsError(f"annos not found {REGISTER}")
    try:
        cards = decode_register(text)
    except WireError as error:
        raise (NoCardsError if str(error) == "no gpu found on node" else RegistrationError)(str(error)) from error
    profiles = _read_profiles(text)
    pairs = _read_pair_scores(annotations.get(PAIR_SCORE, "[]"))
    return tuple(
        RegisteredCard(
            id=card.id,
            index=card.index,
            count=card.count,
            devmem=card.memory_mib,
            devcore=card.cores,
            type=card.model,
            numa=card.numa,
            mode=card.mode,
            health=card.healthy,
            mig_profiles=profiles[position] if profiles else (),
            pair_scores=pairs.get(card.id, {}),
        )
        for position, card in enumerate(cards)
    )


def _read_profiles(text: str) -> list[tuple[MigProfile, ...]]:
    """Return each card's MIG profiles; only the JSON form carries them."""
    if not text.strip().startswith("["):
        return []
    return [tuple(_profile(profile) for profile in _find(card, "migprofiles") or ()) for card in json.loads(text)]


def _profile(profile: Mapping[str, Any]) -> MigProfile:
    placements = tuple(
        Placement(_find(placement, "start") or 0, _find(placement, "size") or 0)
        for placement in _find(profile, "placements") or ()
    )
    return MigProfile(
        name=_find(profile, "name") or "",
        memory_mib=_find(profile, "memorymb") or 0,
        core=_find(profile, "core") or 0,
        slice_count=_find(profile, "slicecount") or 0,
        placements=placements,
    )


def _find(record: Mapping[str, Any], name: str) -> Any:
    """Return a field whatever the letter case of its key, as Go does."""
    return next((value for key, value in record.items() if key.lower() == name), None)


def _read_pair_scores(text: str) -> dict[str, Mapping[str, int]]:
    try:
        return {record["uuid"]: record.get("score") or {} for record in json.loads(text) or ()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RegistrationError(f"undecodable {PAIR_SCORE}: {error}") from error
