"""The device lists on a pod: which container has which share of which card (wire protocol 3.2 and 3.3).

``GPU-a,NVIDIA,20000,30:;`` - a container ends with ``;``, a device with ``:``. Init containers come first and every
container has a slot, empty or not, because positions carry meaning.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

from gpuloom.model.share import ContainerShares, Share
from gpuloom.model.uuids import card_id
from gpuloom.wire.errors import WireError
from gpuloom.wire.words import check_records, decode_int32, join_fields

_REMEMBERED = 1024
_ALLOCATED = "-allocated"
"""At the end of each family's annotation of the cards that a pod holds."""


def decode_shares(text: str) -> tuple[ContainerShares, ...]:
    """Read a device list.

    Every piece between ``;`` is an entry, so a well-formed list has one empty entry more at its end.

    Raises WireError, also for more devices or containers than are read; then the whole pod counts as undecodable.
    """
    check_records(max(text.count(":"), text.count(";")))
    return tuple([_decode_container(piece) for piece in text.split(";")])


def list_held_cards(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the UUIDs of the cards that a pod holds a share of, of whatever vendor; what cannot be read names none."""
    found: set[str] = set()
    for key, text in annotations.items():
        if key.endswith(_ALLOCATED):
            with suppress(WireError):
                found.update(card_id(share.uuid) for shares in decode_shares(text) for share in shares)
    return frozenset(found)


def encode_shares(containers: Iterable[Sequence[Share]]) -> str:
    """Write a device list: one slot per container, ``;`` alone for a container without cards.

    Raises WireError when a share's text is empty or holds a separator.
    """
    return "".join(f"{''.join(_encode_share(share) for share in shares)};" for shares in containers)


def take_next(text: str) -> tuple[int, ContainerShares, str]:
    """Return the position and shares of the first non-empty entry of a device list, and the list without it.

    The shortened list keeps its number of segments, so positions keep their meaning (device plugin P-05). Raises
    WireError when the list is undecodable or has no share left.
    """
    for position, shares in enumerate(decode_shares(text)):
        if shares:
            pieces = text.split(";")
            pieces[position] = ""
            return position, shares, ";".join(pieces)
    raise WireError("device request not found")


def has_shares(text: str) -> bool:
    """Tell whether a device list still holds a share; if not, the allocation of the pod is complete.

    Raises WireError when the list is undecodable.
    """
    return any(decode_shares(text))


def may_have_shares(text: str) -> bool:
    """Tell whether a device list holds a share, or cannot be read and may hold one."""
    try:
        return has_shares(text)
    except WireError:
        return True


def _encode_share(share: Share) -> str:
    if not share.uuid:
        raise WireError("a share without a UUID cannot be written: it would be read as an empty slot")
    return f"{join_fields((share.uuid, share.vendor, str(share.memory_mib), str(share.cores)))}:"


def _decode_container(piece: str) -> ContainerShares:
    if not piece:
        return ()
    shares = [_decode_share(part) for part in piece.split(":") if "," in part]
    # Early HAMi wrote ",,0,0:" for a container without cards (scheduler B-49): a slot, not a share.
    return tuple([share for share in shares if share.uuid])


def _decode_share(part: str) -> Share:
    uuid, _, rest = part.partition(",")
    vendor, memory_mib, cores = _decode_amounts(rest)
    # Every pod that shares a card names it.
    return Share(sys.intern(uuid), vendor, memory_mib, cores)


@lru_cache(_REMEMBERED)
def _decode_amounts(text: str) -> tuple[str, int, int]:
    """Read the amounts behind the card. There are few different ones, and they come again in every pod."""
    fields = text.split(",")
    if len(fields) < 3:
        raise WireError("pod annotation format error, missing fields, do not use nodeName in task spec")
    return fields[0], _number("memory", fields[1]), _number("core", fields[2])


def _number(name: str, text: str) -> int:
    try:
        return decode_int32(text)
    except WireError as error:
        raise WireError(f"invalid {name} field: {error}") from error
