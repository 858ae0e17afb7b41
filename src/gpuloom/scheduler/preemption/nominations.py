"""The nominations of the process, and what became of them."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

import msgspec

from gpuloom.engine.state.nominations import Nomination, Nominations

MOST_ENDED = 1024
"""So many ends of nominations are kept for whoever looks at them; beyond them the oldest are not counted."""


class NominationEnd(msgspec.Struct, frozen=True, gc=False):
    """A nomination that is over, and the word for why."""

    nomination: Nomination
    cause: str


@dataclass(slots=True, kw_only=True)
class TrackedNominations(Nominations):
    """Pods for which room is being made, and those for which no more is.

    capacity_freed  is set when one is over: there may be room for others
    unclaimed_since  by UID of nominated pods whose room is free: since when no Filter of them came (monotonic seconds)
    ended    those that are over and that nobody has looked at yet, oldest first
    changed  set when one is over; whoever looks at them clears it
    """

    capacity_freed: asyncio.Event
    unclaimed_since: dict[str, float] = field(default_factory=dict)
    ended: deque[NominationEnd] = field(default_factory=lambda: deque(maxlen=MOST_ENDED))
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, nomination: Nomination) -> None:
        """Nominate a pod; that the room which it had before was not claimed says nothing about this one."""
        self.unclaimed_since.pop(nomination.uid, None)
        Nominations.put(self, nomination)

    def end(self, uid: str, cause: str) -> None:
        """End a pod's nomination, if there is one, and let those that wait know of the room."""
        self.unclaimed_since.pop(uid, None)
        if nomination := self.take(uid):
            self.ended.append(NominationEnd(nomination, cause))
            self.changed.set()
            self.capacity_freed.set()
