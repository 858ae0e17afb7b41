"""The node's register annotation: which cards it has (wire protocol 2.1).

Three forms are in use: ``csv7`` (HAMi 2.4), ``csv9`` (2.5 to 2.7) and ``json`` (2.8 and later). All are read; the
device plugin writes one of them. MIG profiles are not read yet.
"""

from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

import msgspec

from gpuloom.model.card import Card
from gpuloom.wire.errors import WireError
from gpuloom.wire.words import INT32_MAX, INT32_MIN, decode_bool, decode_int32, encode_bool

RegisterForm = Literal["json", "csv9", "csv7"]

_T = TypeVar("_T")


class _JsonCard(msgspec.Struct, omit_defaults=True):
    """One card in the json form. The order of fields is HAMi's order of keys."""

    id: str = ""
    index: int = 0
    count: int = 0
    devmem: int = 0
    devcore: int = 0
    type: str = ""
    numa: int = 0
    mode: str = ""
    health: bool = False


def decode_register(text: str) -> tuple[Card, ...]:
    """Read a register annotation in any of its forms; one bad record spoils the whole annotation.

    Raises WireError with HAMi's text. An annotation that names no card is an error too (``no gpu found on node``).
    """
    text = text.strip()
    cards = _decode_json(text) if text.startswith("[") or text == "null" else _decode_csv(text)
    if not cards:
        raise WireError("no gpu found on node")
    return cards


def encode_register(cards: Iterable[Card], form: RegisterForm = "json") -> str:
    """Write cards as a register annotation; every record of a csv form ends with a colon."""
    if form == "json":
        return msgspec.json.encode([_to_json(card) for card in cards]).decode()
    return "".join(f"{','.join(_csv_fields(card)[: int(form[3:])])}:" for card in cards)


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
    if index < 0:
        raise WireError(f"index field must not be negative: {index}")
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


def _to_json(card: Card) -> _JsonCard:
    return _JsonCard(
        id=card.id,
        index=card.index,
        count=card.count,
        devmem=card.memory_mib,
        devcore=card.cores,
        type=card.model,
        numa=card.numa,
        mode=card.mode,
        health=card.healthy,
    )


def _decode_json(text: str) -> tuple[Card, ...]:
    try:
        raw = msgspec.json.decode(text, type=list[dict[str, msgspec.Raw]] | None) or []
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise WireError(f"register annotation is not a list of objects: {error}") from error
    return tuple(_from_json(record) for record in raw)


def _from_json(record: dict[str, msgspec.Raw]) -> Card:
    # Go matches keys ignoring case, and a null leaves the field as it was.
    try:
        known = {
            key.lower(): msgspec.json.decode(value)
            for key, value in record.items()
            if key.lower() in _JsonCard.__struct_fields__ and bytes(value) != b"null"
        }
        card = msgspec.convert(known, _JsonCard)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise WireError(f"register annotation has an unreadable card: {error}") from error
    for name in ("count", "devmem", "devcore", "numa"):
        if not INT32_MIN <= getattr(card, name) <= INT32_MAX:
            raise WireError(f"invalid {name} field: not a 32-bit integer: {getattr(card, name)}")
    if not 0 <= card.index <= INT32_MAX:
        raise WireError(f"index field must not be negative: {card.index}")
    return Card(
        id=card.id,
        index=card.index,
        count=card.count,
        memory_mib=card.devmem,
        cores=card.devcore,
        model=card.type,
        numa=card.numa,
        mode=card.mode,
        healthy=card.health,
    )
