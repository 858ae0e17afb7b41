"""Whether a node's cards of one vendor can be used: allocatable count and handshake (scheduler 8.2). Pure.

HAMi's "changed" has no part here: cards are registered again whenever they are healthy and what the node says differs
(B-27, B-28, B-57).
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Literal

import msgspec

from gpuloom.vendors.profile import HealthRules
from gpuloom.wire.handshake import Handshake, decode_handshake

ANSWER_LIMIT = timedelta(seconds=60)
"""A question that nobody answered for so long means that the plugin is gone, unless the kubelet offers cards."""

HandshakeProbe = Literal["registered", "all"]

_REPORTED = "Reported"
_DELETED = "Deleted_"


class Deed(Enum):
    """What is to be written on the node about its handshake.

    ``CLEAN`` leaves behind what the switch says, ``REMOVE`` nothing: a vendor that is not there has no handshake.
    ``UNREGISTER`` removes the register annotation.
    """

    NOTHING = "nothing"
    ASK = "ask"
    CLEAN = "clean"
    REMOVE = "remove"
    UNREGISTER = "unregister"


@dataclass(frozen=True, slots=True)
class Sight:
    """What a node shows of one vendor.

    handshake   the annotation, empty without one
    register    the annotation, None without one
    count       how many shares the kubelet offers
    capacity    how many the node has
    is_used     whether the vendor's cards of this node are in the table
    """

    handshake: str
    register: str | None
    count: int
    is_used: bool
    capacity: int = 0


class Memory(msgspec.Struct, frozen=True, gc=False):
    """What is remembered of a node and vendor.

    count           how many shares the kubelet offered when last seen
    down_register   the register annotation with which the plugin went away, None while it is not known to be down
    """

    count: int = 0
    down_register: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether the cards can be used, what to write, and what to remember."""

    healthy: bool
    deed: Deed
    memory: Memory


def judge_health(
    sight: Sight, memory: Memory, now: datetime, rules: HealthRules, probe: HandshakeProbe = "registered"
) -> Finding:
    """Judge one vendor's cards on one node; ``now`` is in the zone in which this process writes handshakes."""
    match rules.kind:
        case "handshake":
            return _judge_handshake(sight, memory, now, probe, counted=rules.counted)
        case "capacity":
            healthy = sight.capacity > 0
            gone = sight.is_used and not healthy and rules.clean_register
            return Finding(healthy, Deed.UNREGISTER if gone else Deed.NOTHING, Memory())
        case "annotation":
            return Finding(bool(sight.register), Deed.NOTHING, Memory())
    return Finding(healthy=True, deed=Deed.NOTHING, memory=Memory())


def _judge_handshake(sight: Sight, memory: Memory, now: datetime, probe: HandshakeProbe, *, counted: bool) -> Finding:
    if sight.register is None and probe == "registered":
        # A vendor that registered nothing is absent: no question, and an old one is taken back (B-56).
        deed = Deed.REMOVE if _is_a_schedulers(sight, now) else Deed.NOTHING
        return Finding(healthy=False, deed=deed, memory=Memory())
    if sight.count > 0:
        return Finding(healthy=True, deed=_ask(sight, now), memory=Memory(sight.count if counted else 0))
    if _stays_down(sight, memory):
        return Finding(healthy=False, deed=Deed.NOTHING, memory=Memory(0, sight.register))
    if memory.count > 0 or _is_unanswered(sight, now):
        if not sight.is_used:
            # Nothing was cleaned up, so a question that is asked anew counts again.
            return Finding(healthy=False, deed=Deed.NOTHING, memory=Memory(0, memory.down_register))
        return Finding(healthy=False, deed=Deed.CLEAN, memory=Memory(0, sight.register))
    return Finding(healthy=True, deed=_ask(sight, now), memory=Memory())


def _ask(sight: Sight, now: datetime) -> Deed:
    return Deed.NOTHING if _read(sight, now).requesting else Deed.ASK


def _is_unanswered(sight: Sight, now: datetime) -> bool:
    since = _read(sight, now).since
    return since is not None and now - since >= ANSWER_LIMIT


def _stays_down(sight: Sight, memory: Memory) -> bool:
    """Down until the kubelet offers cards again, the plugin registers anew or reports (B-26)."""
    if _REPORTED in sight.handshake:
        return False
    if sight.handshake.startswith(_DELETED):
        return True
    return memory.down_register is not None and memory.down_register == sight.register


def _is_a_schedulers(sight: Sight, now: datetime) -> bool:
    return sight.handshake.startswith(_DELETED) or _read(sight, now).requesting


def _read(sight: Sight, now: datetime) -> Handshake:
    return decode_handshake(sight.handshake, now.tzinfo or UTC)
