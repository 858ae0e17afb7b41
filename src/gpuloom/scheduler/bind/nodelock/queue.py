"""The queue of one lock of one node: what is known of the lock, and who waits for it. No input or output."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gpuloom.vendors.profile import LockRules
from gpuloom.wire.keys import NODE_LOCK
from gpuloom.wire.objects import Node

COMMON_LOCK = LockRules(key=NODE_LOCK)
"""The lock that most vendors share."""


@dataclass(frozen=True, slots=True, eq=False)
class LockTicket:
    """One Bind's turn in a node's queue, and the lock it sets then.

    objection   says why the lock is not wanted any more, empty while it is
    in_group    whether the pod starts together with others
    rules       which lock it is
    vendors     words of the pod's vendors that have this lock
    """

    node: str
    namespace: str
    name: str
    uid: str
    objection: Callable[[], str]
    in_group: bool = False
    rules: LockRules = COMMON_LOCK
    vendors: frozenset[str] = frozenset()

    @property
    def full_name(self) -> str:
        """``namespace/name`` of the pod."""
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class BlockingLock:
    """What is known of a lock that is in the way; times are monotonic seconds.

    is_logged  whether the log has it that the lock is kept beyond its time
    """

    value: str
    first_seen: float
    checked: float
    over_since: float | None = None
    is_logged: bool = False


@dataclass(slots=True)
class LockQueue:
    """What is known of one lock of one node, and the Binds that wait for it.

    waiting     Binds in the order in which they came, and what each of them waits for
    holder      the Bind whose turn it is and that has not ended
    has_lock    whether it has set the lock; where the phase is the lock, there is none to be set
    node        the node as last seen, None when unknown or gone
    blocking    the lock that is in the way
    rules       which of the node's locks it is
    """

    waiting: dict[LockTicket, asyncio.Event] = field(default_factory=dict)
    holder: LockTicket | None = None
    has_lock: bool = True
    node: Node | None = None
    blocking: BlockingLock | None = None
    rules: LockRules = COMMON_LOCK
    _our_uid: str = ""
    _our_value: str = ""

    @contextmanager
    def line_up(self, ticket: LockTicket) -> Iterator[None]:
        """Let a Bind wait here; it is first when all who came before have left."""
        self.waiting[ticket] = asyncio.Event()
        try:
            yield
        finally:
            del self.waiting[ticket]
            if self.holder is None:
                self.wake()

    def is_first(self, ticket: LockTicket) -> bool:
        """Tell whether it is this one's turn."""
        return next(iter(self.waiting), None) is ticket

    def news_for(self, ticket: LockTicket) -> asyncio.Event:
        """Return what is set when there is something new for one who waits."""
        news = self.waiting[ticket]
        news.clear()
        return news

    @property
    def value(self) -> str:
        """The lock annotation as last seen, empty without one."""
        return self.node.annotations.get(self.rules.key, "") if self.node else ""

    @property
    def is_idle(self) -> bool:
        """Whether no Bind waits here or has the lock."""
        return not self.waiting and self.holder is None

    def apply(self, node: Node) -> None:
        """Take a node unless a later version of it is known, and wake the first; without versions, the last counts."""
        if self.node is None or node.version >= self.node.version:
            self.node = node
            self.wake()

    def wake(self) -> None:
        """Let the first who waits look again. If all of them did, they would keep it from going on."""
        if (news := next(iter(self.waiting.values()), None)) is not None:
            news.set()

    def wake_all(self) -> None:
        """Let everybody who waits see whether there is still something to wait for."""
        for news in self.waiting.values():
            news.set()

    def note_ours(self, ticket: LockTicket, value: str) -> None:
        """Remember which value we write for which pod: a lock carries no UID."""
        self._our_uid, self._our_value = ticket.uid, value

    @property
    def owner_uid(self) -> str:
        """UID of the pod for which this process set the lock that is there, empty when somebody else set it."""
        return self._our_uid if self.value and self.value == self._our_value else ""

    def is_ours(self, ticket: LockTicket) -> bool:
        """Whether the lock that is there was set here for this very pod."""
        return self.owner_uid == ticket.uid
