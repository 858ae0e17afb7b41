"""The node lock: who may be served by the device plugin now (wire protocol 2.4)."""

from dataclasses import dataclass
from datetime import datetime

from gpuloom.wire.errors import WireError
from gpuloom.wire.words import decode_time, encode_time


@dataclass(frozen=True, slots=True)
class NodeLock:
    """When a lock was set, and for which pod; both names are empty in the form of HAMi before 2.4.1."""

    time: datetime
    namespace: str = ""
    name: str = ""

    def is_held_by(self, namespace: str, name: str) -> bool:
        """Whether exactly this pod holds the lock."""
        return bool(self.name) and (self.namespace, self.name) == (namespace, name)


def decode_lock(text: str) -> NodeLock:
    """Read a lock annotation.

    Raises WireError with HAMi's text.
    """
    if "," not in text:
        return NodeLock(decode_time(text))
    parts = text.split(",")
    if len(parts) != 3:
        raise WireError(f"malformed lock annotation: expected 3 parts, got {len(parts)} from {text}")
    return NodeLock(decode_time(parts[0]), parts[1], parts[2])


def encode_lock(lock: NodeLock) -> str:
    """Write a lock annotation."""
    if not lock.name:
        return encode_time(lock.time)
    return f"{encode_time(lock.time)},{lock.namespace},{lock.name}"
