"""JSON as Go reads and writes it: keys in any letter case, null means absent, ``<>&`` escaped.

Structs for :func:`decode_fields` spell their fields in lower case (``rename="lower"`` where Python wants another name).
"""

from collections.abc import Collection
from typing import Any, TypeVar

import msgspec

from gpuloom.wire.depth import BAD_JSON, decode
from gpuloom.wire.errors import WireError
from gpuloom.wire.words import check_records

_T = TypeVar("_T")
_S = TypeVar("_S", bound=msgspec.Struct)

# Go escapes these inside strings; outside strings they cannot occur.
_ESCAPES = tuple((char.encode(), f"\\u{ord(char):04x}".encode()) for char in "<>&\u2028\u2029")


def decode_json(text: bytes | str | msgspec.Raw, type_: type[_T]) -> _T:
    """Read JSON text as a value of one type; keys must be spelled as the type spells them.

    What nobody reads may have any depth. Raises WireError with the decoder's text.
    """
    try:
        return decode(text, type_)
    except BAD_JSON as error:
        raise WireError(str(error)) from error


def decode_list_of(text: str, type_: type[_S]) -> list[_S]:
    """Read a list of JSON objects, each as :func:`decode_fields` does; null is an empty list.

    Raises WireError with the decoder's text, and for more than MOST_RECORDS.
    """
    if text.strip() == "null":
        return []
    records = decode_json(text, list[msgspec.Raw])
    check_records(len(records))
    return [decode_fields(record, type_) for record in records]


def decode_fields(text: bytes | str | msgspec.Raw, type_: type[_S]) -> _S:
    """Read one JSON object, keys in any letter case; null means absent, and the last of two spellings counts.

    Raises WireError with the decoder's text.
    """
    known = find_fields(text, type_.__struct_encode_fields__)
    # Joined again with the known spelling, so that each value is decoded only once, with its type.
    joined = b",".join(b'"%s":%s' % (key.encode(), bytes(value)) for key, value in known.items())
    return decode_json(b"{%s}" % joined, type_)


def find_fields(text: bytes | str | msgspec.Raw, names: Collection[str]) -> dict[str, msgspec.Raw]:
    """Return the undecoded values of one JSON object by their keys in lower case, as far as ``names`` has them.

    Null means absent, and the last of two spellings counts. Raises WireError with the decoder's text.
    """
    found = decode_json(text, dict[str, msgspec.Raw])
    return {
        name: value
        for key, value in found.items()
        if (name := key.lower()) in names and bytes(memoryview(value)[:5]) != b"null"
    }


def encode_json(value: Any) -> str:
    """Write a value as Go's encoder does: no blanks, keys in the order given.

    Raises WireError for text that is not Unicode.
    """
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeError as error:
        raise WireError(str(error)) from error
    for char, escape in _ESCAPES:
        encoded = encoded.replace(char, escape)
    return encoded.decode()
