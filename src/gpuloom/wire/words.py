"""Small things that several formats share: Go's booleans, 32-bit integers, lists with commas, RFC 3339 times."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated

import msgspec

from gpuloom.wire.errors import WireError

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_RFC3339 = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII)

_REMEMBERED_NUMBERS = 1024
"""Annotations are full of the same few amounts."""

SEPARATORS = frozenset(",:;")
"""What separates the fields of records and device lists, so that no field may hold it."""

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)

Int32 = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)]
"""A JSON number that Go reads into 32 bits."""

Natural32 = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
"""The same for numbers that cannot be negative."""


_LONGEST_TIME = 18
"""Most digits of a Unix time: int() never sees texts of a million digits."""

MOST_RECORDS = 2048
"""So many objects are read of an annotation: five times the MIG placements of sixteen cards. Each takes the event loop
microseconds, and an annotation has room for 80,000."""


def check_records(number: int) -> None:
    """Refuse more objects than are read.

    Raises WireError.
    """
    if number > MOST_RECORDS:
        raise WireError(f"{number} objects are more than are read ({MOST_RECORDS})")


def decode_unix_time(text: str) -> int | None:
    """Return whole Unix seconds, None when a text holds none. Never raises."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_TIME else None


def decode_bool(text: str) -> bool:
    """Read a boolean as Go does: exactly twelve spellings.

    Raises WireError for any other text.
    """
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise WireError(f"not a boolean: {text!r}")


def encode_bool(value: bool) -> str:  # noqa: FBT001 - the value is what this writes
    """Write a boolean as Go does."""
    return "true" if value else "false"


@lru_cache(_REMEMBERED_NUMBERS)
def decode_int32(text: str) -> int:
    """Read a decimal 32-bit signed integer.

    Raises WireError when the text is none.
    """
    # Because of the length test, int() never sees texts of a million digits.
    if not _INTEGER.fullmatch(text) or len(text) > 64 or not INT32_MIN <= (value := int(text)) <= INT32_MAX:
        raise WireError(f"not a 32-bit integer: {text[:80]!r}")
    return value


def decode_list(text: str) -> tuple[str, ...]:
    """Read a list with commas as people write it: blanks are trimmed, empty items ignored (cordon, use, nouse)."""
    return tuple(item for part in text.split(",") if (item := part.strip()))


def encode_list(items: Iterable[str]) -> str:
    """Write a list with commas."""
    return ",".join(items)


def join_fields(fields: Iterable[str]) -> str:
    """Write the fields of one record of a register annotation or device list.

    Raises WireError when a field holds a character that separates fields, records or containers.
    """
    fields = tuple(fields)
    for field in fields:
        if not SEPARATORS.isdisjoint(field):
            raise WireError(f"cannot be written between commas, colons and semicolons: {field[:80]!r}")
    return ",".join(fields)


def decode_time(text: str) -> datetime:
    """Read an RFC 3339 time.

    Raises WireError when the text is none.
    """
    if not _RFC3339.fullmatch(text):
        raise WireError(f"not an RFC 3339 time: {text[:80]!r}")
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise WireError(f"not an RFC 3339 time: {text[:80]!r}") from error


def encode_time(moment: datetime) -> str:
    """Write a time as RFC 3339 with seconds, in its own offset (wire protocol 2.4)."""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def encode_unix_time(seconds: int) -> str:
    """Write Unix seconds as RFC 3339; nothing for 0, and for what is no time of the calendar."""
    try:
        return encode_time(datetime.fromtimestamp(seconds, UTC)) if seconds else ""
    except (ValueError, OverflowError, OSError):
        return ""
