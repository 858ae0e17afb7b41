"""The annotation that says for which node a pod waits whose room is being made: ``<node>;<time>`` (RFC 3339)."""

from datetime import datetime

from gpuloom.wire.errors import WireError
from gpuloom.wire.words import decode_time, encode_time

_LONGEST = 320
"""A node's name has at most 253 characters."""


def encode_nomination(node: str, moment: datetime) -> str:
    """Write the annotation."""
    return f"{node};{encode_time(moment)}"


def decode_nomination(text: str) -> tuple[str, datetime]:
    """Read node and time.

    Raises WireError when the text is no such annotation.
    """
    node, separator, moment = text.partition(";")
    if len(text) > _LONGEST or not node or not separator:
        raise WireError(f"not a node and a time: {text[:80]!r}")
    return node, decode_time(moment)
