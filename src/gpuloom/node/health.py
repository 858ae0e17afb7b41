"""Which cards are sick, why, and when one may be tried again (device plugin 7). The time is an argument."""

import math
from collections.abc import Container, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import structlog

from gpuloom.node.nvml import Coverage, XidEvent

APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""Errors that the application on the card causes: the card itself is fine."""

DEFAULT_RECOVERY_S = 300.0
_TOLD_EVERY_S = 60.0
_MOST_DIGITS = 9
_MOST_SHOWN = 80
_ALL = frozenset({"all", "xids"})
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """What counts as a sick card.

    An Xid does not count when ``ignored`` or ``ignores_all`` says so; ``counted`` and ``counts_all`` win over these. A
    card is tried again after ``recovery_s`` without a new error, never if that is 0; a card that is sick only because
    its driver failed is tried in any case.
    """

    ignored: AbstractSet[int] = APPLICATION_XIDS
    ignores_all: bool = False
    counted: AbstractSet[int] = frozenset()
    counts_all: bool = False
    recovery_s: float = DEFAULT_RECOVERY_S

    @property
    def is_watched(self) -> bool:
        """Whether any Xid counts at all."""
        return self.counts_all or bool(self.counted) or not self.ignores_all

    def is_fatal(self, xid: int) -> bool:
        """Whether this Xid makes a card sick."""
        return self.counts_all or xid in self.counted or not (self.ignores_all or xid in self.ignored)


def parse_health(disabled: str, enabled: str, *, recovery_s: float = DEFAULT_RECOVERY_S) -> HealthSettings:
    """Read ``DP_DISABLE_HEALTHCHECKS`` and ``DP_ENABLE_HEALTHCHECKS``, lists of Xids with commas or ``all``.

    What is enabled wins over what is disabled and over the built-in list. Items that are no numbers are only logged.
    """
    off, on = _split(disabled), _split(enabled)
    return HealthSettings(
        ignored=APPLICATION_XIDS | _numbers(off),
        ignores_all=bool(off & _ALL),
        counted=_numbers(on),
        counts_all="all" in on,
        recovery_s=recovery_s,
    )


@dataclass(frozen=True, slots=True)
class HealthTarget:
    """What is well or sick by itself: a card, or an instance on one, by the driver's ids."""

    uuid: str
    card_uuid: str
    instance: tuple[int, int] | None = None

    def is_hit_by(self, event: XidEvent) -> bool:
        """Tell whether an error is about this target; an error of a whole card is about everything on it."""
        return event.uuid in {self.card_uuid, None} and (
            self.instance is None or event.instance is None or self.instance == event.instance
        )


@dataclass(frozen=True, slots=True)
class Sickness:
    """Why a card is sick, and when that was last seen, in seconds of any clock.

    ``is_of_driver`` says that only the driver as a whole failed: the card is well again as soon as the driver answers.
    """

    reason: str
    since_s: float
    is_of_driver: bool = False


class HealthBook:
    """The sick cards by UUID; about other cards no error is known."""

    def __init__(self, settings: HealthSettings) -> None:
        self._settings = settings
        self._sick: dict[str, Sickness] = {}
        self._told_s: dict[tuple[str | None, int], float] = {}

    @property
    def sick(self) -> Mapping[str, Sickness]:
        """The sick cards."""
        return self._sick

    def note_event(self, event: XidEvent, targets: Iterable[HealthTarget], now_s: float) -> None:
        """Record a critical error; `targets` are the node's. Ignore an error of an unknown card."""
        if not self._settings.is_fatal(event.xid):
            self._tell_harmless(event, now_s)
            return
        for target in targets:
            if target.is_hit_by(event):
                self.note(target.uuid, f"Xid {event.xid}", now_s)

    def _tell_harmless(self, event: XidEvent, now_s: float) -> None:
        """Log an error that does not count, once a minute: programs make as many of these as they like."""
        kind = event.uuid, event.xid
        if now_s - self._told_s.get(kind, -math.inf) >= _TOLD_EVERY_S:
            self._told_s[kind] = now_s
            _log.info("error of an application, card stays healthy", uuid=event.uuid, xid=event.xid)

    def note_coverage(self, coverage: Mapping[str, Coverage], now_s: float) -> None:
        """Record which cards cannot be watched."""
        for uuid, answer in coverage.items():
            if answer is Coverage.FAILED:
                self.note(uuid, "its errors cannot be watched", now_s)
            elif answer is Coverage.UNSUPPORTED:
                _log.warning("card is too old to report errors, it counts as healthy", uuid=uuid)

    def note(self, uuid: str, reason: str, now_s: float) -> None:
        """Record that a card is sick, or sick again."""
        if uuid not in self._sick:
            _log.warning("card is unhealthy", uuid=uuid, reason=reason, recovery_s=self._settings.recovery_s)
        self._sick[uuid] = Sickness(reason, now_s)

    def note_driver(self, targets: Iterable[HealthTarget], reason: str, now_s: float) -> None:
        """Record that nobody knows whether these are well; what is sick already keeps its own reason."""
        for uuid in (target.uuid for target in targets):
            known = self._sick.get(uuid)
            if known is None:
                self.note(uuid, reason, now_s)
                self._sick[uuid] = Sickness(reason, now_s, is_of_driver=True)
            else:
                self.postpone(uuid, known.reason, now_s)

    def postpone(self, uuid: str, reason: str, now_s: float) -> None:
        """Restart the wait of a sick card that did not answer."""
        if sickness := self._sick.get(uuid):
            self._sick[uuid] = Sickness(reason, now_s, sickness.is_of_driver)

    def forget_others(self, uuids: Container[str]) -> None:
        """Forget all but these, which are all that there is: what is gone for good is never well again."""
        self._sick = {uuid: sickness for uuid, sickness in self._sick.items() if uuid in uuids}

    def find_due(self, now_s: float, *, is_driver_well: bool) -> tuple[str, ...]:
        """Return the cards that may be tried: without errors for long enough, or sick by a driver that is well now."""
        limit_s = self._settings.recovery_s or math.inf
        return tuple(
            uuid
            for uuid, sickness in self._sick.items()
            if now_s - sickness.since_s >= limit_s or (is_driver_well and sickness.is_of_driver)
        )

    def recover(self, uuid: str) -> None:
        """Record that a card is well, because it answered when it was tried."""
        if sickness := self._sick.pop(uuid, None):
            _log.info("card is healthy again", uuid=uuid, was=sickness.reason)


def _split(text: str) -> frozenset[str]:
    return frozenset(item.strip().lower() for item in text.split(",") if item.strip())


def _numbers(items: AbstractSet[str]) -> frozenset[int]:
    words = items - _ALL
    for item in sorted(words):
        if not _is_number(item):
            _log.warning("not an Xid, ignored", item=item[:_MOST_SHOWN])
    return frozenset(int(item) for item in words if _is_number(item))


def _is_number(item: str) -> bool:
    return item.isdecimal() and len(item) <= _MOST_DIGITS
