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


class HandshakeAction(Enum):
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
class Observation:
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


class HealthHistory(msgspec.Struct, frozen=True, gc=False):
    """What is remembered of a node and vendor.

    count           how many shares the kubelet offered when last seen
    down_register   the register annotation with which the plugin went away, None while it is not known to be down
    """

    count: int = 0
    down_register: str | None = None


NOTHING_SEEN = HealthHistory()


@dataclass(frozen=True, slots=True)
class HealthResult:
    """Whether the cards can be used, what to write, and what to remember."""

    healthy: bool
    action: HandshakeAction = HandshakeAction.NOTHING
    history: HealthHistory = NOTHING_SEEN


def check_health(
    observation: Observation,
    history: HealthHistory,
    now: datetime,
    rules: HealthRules,
    probe: HandshakeProbe = "registered",
) -> HealthResult:
    """Judge one vendor's cards on one node; ``now`` is in the zone in which this process writes handshakes."""
    match rules.kind:
        case "handshake":
            return _check_handshake(observation, history, now, probe, counted=rules.counted)
        case "capacity":
            healthy = observation.capacity > 0
            gone = observation.is_used and not healthy and rules.clean_register
            return HealthResult(healthy, HandshakeAction.UNREGISTER if gone else HandshakeAction.NOTHING)
        case "annotation":
            return HealthResult(bool(observation.register))
    return HealthResult(healthy=True)


def _check_handshake(
    observation: Observation, history: HealthHistory, now: datetime, probe: HandshakeProbe, *, counted: bool
) -> HealthResult:
    if observation.register is None and probe == "registered":
        # A vendor that registered nothing is absent: no question, and an old one is taken back (B-56).
        action = HandshakeAction.REMOVE if _is_a_schedulers(observation, now) else HandshakeAction.NOTHING
        return HealthResult(healthy=False, action=action)
    if observation.count > 0:
        counting = HealthHistory(observation.count if counted else 0)
        return HealthResult(healthy=True, action=_ask(observation, now), history=counting)
    if _stays_down(observation, history):
        return HealthResult(healthy=False, history=HealthHistory(0, observation.register))
    if history.count > 0 or _is_unanswered(observation, now):
        if not observation.is_used:
            # Nothing was cleaned up, so a question that is asked anew counts again.
            return HealthResult(healthy=False, history=HealthHistory(0, history.down_register))
        return HealthResult(healthy=False, action=HandshakeAction.CLEAN, history=HealthHistory(0, observation.register))
    return HealthResult(healthy=True, action=_ask(observation, now))


def _ask(observation: Observation, now: datetime) -> HandshakeAction:
    return HandshakeAction.NOTHING if _read(observation, now).requesting else HandshakeAction.ASK


def _is_unanswered(observation: Observation, now: datetime) -> bool:
    since = _read(observation, now).since
    return since is not None and now - since >= ANSWER_LIMIT


def _stays_down(observation: Observation, history: HealthHistory) -> bool:
    """Down until the kubelet offers cards again, the plugin registers anew or reports (B-26)."""
    if _REPORTED in observation.handshake:
        return False
    if observation.handshake.startswith(_DELETED):
        return True
    return history.down_register is not None and history.down_register == observation.register


def _is_a_schedulers(observation: Observation, now: datetime) -> bool:
    return observation.handshake.startswith(_DELETED) or _read(observation, now).requesting


def _read(observation: Observation, now: datetime) -> Handshake:
    return decode_handshake(observation.handshake, now.tzinfo or UTC)
