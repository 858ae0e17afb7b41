"""The last decisions, a bounded number, for people to look at; calls do not wait for it."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from gpuloom.engine.decision.decision import Decision
from gpuloom.wire.objects import Pod

MOST_DECISIONS = 256
MOST_OFFERED = 200_000
"""A decision keeps a word on every node, so large clusters remember fewer decisions."""


class PastDecision(msgspec.Struct, frozen=True, gc=False):
    """One answered Filter that came to a decision, numbered from 1; ``offered`` counts the names in the call."""

    number: int
    at: datetime
    pod: Pod
    decision: Decision
    offered: int

    def names(self) -> frozenset[str] | None:
        """Return the nodes that kube-scheduler offered, None where the decision does not tell of all of them."""
        decision = self.decision
        names = frozenset((*decision.refusals, *(node for node, _ in decision.fitting.worst_first())))
        return names if len(names) == decision.candidates else None


@dataclass(slots=True)
class DecisionHistory:
    """Decisions, oldest first."""

    _entries: deque[PastDecision] = field(default_factory=deque)
    _offered: int = 0
    _count: int = 0

    def __iter__(self) -> Iterator[PastDecision]:
        return iter(self._entries)

    def note(self, at: datetime, pod: Pod, decision: Decision, *, offered: int) -> None:
        """Remember a decision among so many nodes; the oldest go when there are too many."""
        self._count += 1
        self._offered += offered
        self._entries.append(PastDecision(self._count, at, pod, decision, offered))
        while len(self._entries) > MOST_DECISIONS or (self._offered > MOST_OFFERED and len(self._entries) > 1):
            self._offered -= self._entries.popleft().offered

    def find(self, number: int) -> PastDecision | None:
        """Return a decision by its number, None when it is forgotten."""
        return next((entry for entry in self._entries if entry.number == number), None)

    def last_of(self, uid: str) -> PastDecision | None:
        """Return the last decision about a pod."""
        return next((entry for entry in reversed(self._entries) if entry.pod.metadata.uid == uid), None)
