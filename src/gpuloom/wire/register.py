"""The node's register annotation: which cards it has (wire protocol 2.1).

Three forms are in use: ``csv7`` (HAMi 2.4), ``csv9`` (2.5 to 2.7) and ``json`` (2.8 and later). All are read; the
device plugin writes one of them. Only ``json`` knows MIG profiles.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from gpuloom.model.card import Card
from gpuloom.model.mig import MOST_SLICES, MigPlacement, MigProfile
from gpuloom.model.nodecards import MOST_CARDS
from gpuloom.wire.depth import BAD_JSON
from gpuloom.wire.errors import WireError
from gpuloom.wire.gojson import decode_fields, decode_json, decode_list_of, encode_json
from gpuloom.wire.keys import NODE_REGISTER
from gpuloom.wire.words import Int32, Natural32, check_records, decode_bool, decode_int32, encode_bool, join_fields

RegisterForm = Literal["json", "csv9", "csv7"]

_T = TypeVar("_T")


class NoCardsError(WireError):
    """The node says, readably, that it has no card; a broken annotation says nothing (scheduler B-27)."""


class _JsonPlacement(msgspec.Struct, frozen=True):
    start: Int32 = 0
    size: Int32 = 0


class _JsonProfile(msgspec.Struct, frozen=True):
    name: str = ""
    memory_mb: Natural32 = msgspec.field(default=0, name="memorymb")
    core: Natural32 = 0
    slice_count: Natural32 = msgspec.field(default=0, name="slicecount")
    placements: list[msgspec.Raw] = []


_NOTHING = msgspec.Raw(b"null")


class _JsonCard(msgspec.Struct, frozen=True):
    id: str = ""
    index: Natural32 = 0
    count: Natural32 = 0
    devmem: Natural32 = 0
    devcore: Natural32 = 0
    type: str = ""
    numa: Int32 = 0
    mode: str = ""
    mig_profiles: list[msgspec.Raw] = msgspec.field(default_factory=list, name="migprofiles")
    health: bool = False
    custominfo: msgspec.Raw = _NOTHING


class _PlainCard(_JsonCard, frozen=True, forbid_unknown_fields=True):
    """A card in HAMi's own spelling and without MIG: nearly all are, and they are read several times as fast."""


# Made once: a list type that is only named costs as much as reading the cards.
_PLAIN_CARDS = msgspec.json.Decoder(list[_PlainCard])


def read_register(annotations: Mapping[str, str], key: str = NODE_REGISTER) -> tuple[Card, ...]:
    """Read the cards of a node from its annotations.

    Raises NoCardsError when the annotation is missing or names no card, WireError when it is broken.
    """
    if key not in annotations:
        raise NoCardsError(f"annos not found {key}")
    return decode_register(annotations[key])


def decode_register(text: str) -> tuple[Card, ...]:
    """Read a register annotation in any of its forms; one bad record, or an id that stands twice, spoils all of it.

    Raises WireError with HAMi's text, NoCardsError (``no gpu found on node``) when the annotation names no card.
    """
    text = text.strip()
    cards = _decode_json(text) if text.startswith("[") or text == "null" else _decode_csv(text)
    if not cards:
        raise NoCardsError("no gpu found on node")
    check_ids([card.id for card in cards])
    return cards


def check_count(number: int) -> None:
    """Refuse more cards than a node can have.

    Raises WireError.
    """
    if number > MOST_CARDS:
        raise WireError(f"{number} cards are more than a node can have ({MOST_CARDS})")


def check_ids(ids: Sequence[str]) -> None:
    """Refuse cards of which several have one id: what pods hold of it could be told of one of them alone.

    Raises WireError, naming the id.
    """
    if len(set(ids)) < len(ids):
        raise WireError(f"several cards have the id {Counter(ids).most_common(1)[0][0][:80]!r}")


def encode_register(cards: Iterable[Card], form: RegisterForm = "json") -> str:
    """Write cards as a register annotation; every record of a csv form ends with a colon.

    Raises WireError when a card's text holds what separates fields in a csv form.
    """
    if form == "json":
        return encode_json([_to_json(card) for card in cards])
    return "".join(f"{join_fields(_csv_fields(card)[: int(form[3:])])}:" for card in cards)


def _csv_fields(card: Card) -> list[str]:
    return [
        card.id,
        str(card.count),
        str(card.memory_mib),
        str(card.cores),
        card.model,
        str(card.numa),
        encode_bool(card.healthy),
        str(card.index),
        card.mode,
    ]


def _decode_csv(text: str) -> tuple[Card, ...]:
    if ":" not in text:
        raise WireError("node annotation missing device separator")
    check_count(text.count(":"))
    return tuple(_decode_record(piece) for piece in text.split(":") if piece)


def _decode_record(piece: str) -> Card:
    if "," not in piece:
        raise WireError(f'malformed node annotation segment: "{piece}"')
    fields = piece.split(",")
    if len(fields) not in {7, 9}:
        raise WireError(f"unexpected field count {len(fields)} in node annotation")
    count = _field("count", fields[1], decode_int32)
    memory_mib = _field("memory", fields[2], decode_int32)
    cores = _field("core", fields[3], decode_int32)
    healthy = _field("health", fields[6], decode_bool)
    numa = _field("numa", fields[5], decode_int32)
    index, mode = (_field("index", fields[7], decode_int32), fields[8]) if len(fields) == 9 else (0, "hami-core")
    for name, value in (("count", count), ("memory", memory_mib), ("core", cores), ("index", index)):
        if value < 0:
            raise WireError(f"{name} field must not be negative: {value}")
    return Card(
        id=fields[0],
        index=index,
        count=count,
        memory_mib=memory_mib,
        cores=cores,
        model=fields[4],
        numa=numa,
        mode=mode,
        healthy=healthy,
    )


def _field(name: str, text: str, decode: Callable[[str], _T]) -> _T:
    try:
        return decode(text)
    except WireError as error:
        raise WireError(f"invalid {name} field: {error}") from error


def _decode_json(text: str) -> tuple[Card, ...]:
    try:
        if text.count("{") > MOST_CARDS:
            # To count so many objects takes a tenth of the time that it takes to read them.
            check_count(len(decode_json(text, list[msgspec.Raw])))
        with contextlib.suppress(WireError, *BAD_JSON):
            return _from_records(_PLAIN_CARDS.decode(text))
        return _from_records(decode_list_of(text, _JsonCard))
    except WireError as error:
        raise WireError(f"register annotation is not a list of cards: {error}") from error


def _from_records(records: Sequence[_JsonCard]) -> tuple[Card, ...]:
    _check_mig([record.mig_profiles for record in records])
    profiles = [[decode_fields(raw, _JsonProfile) for raw in record.mig_profiles] for record in records]
    _check_mig([one.placements for of_card in profiles for one in of_card])
    return tuple(map(_from_json, records, profiles))


def _check_mig(lists: Sequence[Sequence[msgspec.Raw]]) -> None:
    """Refuse more profiles of a card, or placements of a profile, than can be, or than are read of all together."""
    lengths = [len(one) for one in lists]
    check_records(sum(lengths))
    if (longest := max(lengths, default=0)) > MOST_SLICES:
        raise WireError(f"{longest} MIG profiles or placements are more than {MOST_SLICES}")


def _from_json(record: _JsonCard, profiles: Iterable[_JsonProfile]) -> Card:
    return Card(
        id=record.id,
        index=record.index,
        count=record.count,
        memory_mib=record.devmem,
        cores=record.devcore,
        model=record.type,
        numa=record.numa,
        mode=record.mode,
        healthy=record.health,
        mig_profiles=tuple([_to_profile(one) for one in profiles]),
        custom=() if record.custominfo is _NOTHING else _to_custom(record.custominfo),
    )


def _to_custom(raw: msgspec.Raw) -> tuple[tuple[str, str | int | bool], ...]:
    """Keep what a plugin says in words, numbers and flags; there is no agreed form."""
    value = decode_json(raw, object)
    if not isinstance(value, dict):
        return ()
    return tuple((key, part) for key, part in value.items() if isinstance(part, str | int))


def _to_profile(record: _JsonProfile) -> MigProfile:
    return MigProfile(
        name=record.name,
        memory_mib=record.memory_mb,
        cores=record.core,
        slice_count=record.slice_count,
        placements=tuple([_to_placement(raw) for raw in record.placements]),
    )


def _to_placement(raw: msgspec.Raw) -> MigPlacement:
    """Read a placement; one without slices could be given without end.

    Raises WireError.
    """
    placement = decode_fields(raw, _JsonPlacement)
    if placement.start < 0 or placement.size < 1 or placement.start + placement.size > MOST_SLICES:
        raise WireError(f"a MIG placement of {placement.size} slices from {placement.start} is on no card")
    return MigPlacement(placement.start, placement.size)


def _to_json(card: Card) -> dict[str, Any]:
    """Keys in HAMi's order; what is zero, false or empty is left out."""
    fields = {
        "id": card.id,
        "index": card.index,
        "count": card.count,
        "devmem": card.memory_mib,
        "devcore": card.cores,
        "type": card.model,
        "numa": card.numa,
        "mode": card.mode,
        "migProfiles": [_from_profile(profile) for profile in card.mig_profiles],
        "health": card.healthy,
        "custominfo": dict(card.custom),
    }
    return {key: value for key, value in fields.items() if value}


def _from_profile(profile: MigProfile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "memoryMB": profile.memory_mib,
        "core": profile.cores,
        "sliceCount": profile.slice_count,
        "placements": [{"start": placement.start, "size": placement.size} for placement in profile.placements],
    }
