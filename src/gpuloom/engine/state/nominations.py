"""Pods for which room is being made, each on one node: they hold nothing yet, and others must leave them that room.

A nomination stands in no column and in no ledger: together with those that are to leave it would exceed the card, and
whom it concerns depends on who asks. Pods of equal or lower priority give way to it, those of higher priority do not.
:mod:`gpuloom.engine.decision.nominated` decides with respect for nominations.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

import msgspec

from gpuloom.engine.request.demand import Demands


class Nomination(msgspec.Struct, frozen=True, gc=False):
    """A pod that is to get its cards on a node when others have left it.

    priority  the pod's; pods of the same or a lower one leave it the room
    since     Unix seconds when it was nominated
    victims   UIDs of those that are asked to leave for it; those that leave anyway need not be named
    is_asked  whether they are: not where an earlier leader began, and whom it had yet to ask is not known
    """

    uid: str
    namespace: str
    name: str
    node: str
    priority: int
    demands: Demands
    since: int
    victims: frozenset[str] = frozenset()
    is_asked: bool = True

    @property
    def full_name(self) -> str:
        """``namespace/name``, as people write it."""
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class Nominations:
    """All nominations, one a pod at most. There are few: whoever nominates bounds them."""

    _by_uid: dict[str, Nomination] = field(default_factory=dict)
    _in_order: list[Nomination] | None = None

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[Nomination]:
        """Give them, the most important first, of equal ones the oldest: in this order they get their room."""
        if self._in_order is None:
            self._in_order = sorted(self._by_uid.values(), key=_rank)
        return iter(self._in_order)

    def put(self, nomination: Nomination) -> None:
        """Nominate a pod; what it was nominated for before is superseded."""
        self._by_uid[nomination.uid] = nomination
        self._in_order = None

    def take(self, uid: str) -> Nomination | None:
        """End a pod's nomination and return it, None when there is none; safe to call twice."""
        self._in_order = None
        return self._by_uid.pop(uid, None)

    def find(self, uid: str) -> Nomination | None:
        """Return a pod's nomination."""
        return self._by_uid.get(uid)

    def least_with_fewer(self, most: int) -> float:
        """Return the least priority with fewer than ``most`` pods of it or a higher one for which others are asked.

        -inf for any.
        """
        asked = [one for one in self if one.is_asked]
        return -inf if len(asked) < most else asked[most - 1].priority + 1

    def that_bind(self, uid: str, priority: int) -> list[Nomination]:
        """Return those that a pod of this priority must leave room, most important first.

        Of several on its own node a nominated pod gives way to those before it only: else each would wait.
        """
        if not self._by_uid:
            return []
        own = self._by_uid.get(uid)
        return [one for one in self if one.uid != uid and one.priority >= priority and not _is_behind(one, own)]

    def nodes_kept_from(self, uid: str, priority: int) -> frozenset[str]:
        """Return the nodes on which a pod of this priority must leave others their room."""
        return frozenset(one.node for one in self.that_bind(uid, priority))


def _is_behind(one: Nomination, own: Nomination | None) -> bool:
    return own is not None and one.node == own.node and _rank(one) > _rank(own)


def _rank(one: Nomination) -> tuple[int, int, str]:
    return -one.priority, one.since, one.uid
