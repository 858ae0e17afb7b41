"""What a device plugin of gpuloom says on its node: that it needs no node lock, and for which vendors (binding 9).

``NVIDIA;0c9b1a52-...``: words of vendors with commas, and the UID of the plugin's own pod, by which others see whether
it still runs.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpuloom.wire.errors import WireError

_UID = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Serves:
    """The vendors whose pods a plugin serves without a lock, by word, and the UID of its pod."""

    vendors: frozenset[str]
    plugin_uid: str


def encode_serves(vendors: Iterable[str], plugin_uid: str) -> str:
    """Write the annotation.

    Raises WireError for what could not be read again.
    """
    text = f"{','.join(sorted(vendors))};{plugin_uid}"
    decode_serves(text)
    return text


def decode_serves(text: str) -> Serves:
    """Read the annotation.

    Raises WireError when it does not say both, vendors and a UID.
    """
    words, _, uid = text.partition(";")
    vendors = frozenset(words.split(","))
    if not _UID.fullmatch(uid) or not all(_WORD.fullmatch(word) for word in vendors):
        raise WireError(f"{text[:80]!r} is not of the form <vendor>,<vendor>;<UID of a pod>")
    return Serves(vendors, uid)
