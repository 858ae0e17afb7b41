"""Failures on demand: what a test asks the server to do wrong, and nothing else.

server.faults.add(Fault(method="PATCH", path="/nodes/", status=429, retry_after_s=1, times=2))
server.faults.add(Fault(method="POST", path="/binding", lose_answer=True))
server.faults.cut_watches()
"""

import re
from dataclasses import dataclass, field

from gpuloom.local.apiserver.kinds import KINDS
from gpuloom.local.apiserver.store import Store
from gpuloom.local.apiserver.watches import Watchers


@dataclass(slots=True)
class Fault:
    """One kind of failure, for the next ``times`` requests that match.

    ``method`` is empty for any; ``path`` is a regular expression searched in the path and query. First the request
    waits ``delay_s``; then it is answered with ``status`` (if not 0) without being carried out, or is carried out.
    ``cut`` breaks the connection instead of carrying it out, ``lose_answer`` after carrying it out.
    """

    method: str = ""
    path: str = ""
    times: int = 1
    delay_s: float = 0.0
    status: int = 0
    reason: str = ""
    message: str = "a fault was injected"
    retry_after_s: int | None = None
    cut: bool = False
    lose_answer: bool = False

    def concerns(self, method: str, path: str) -> bool:
        """Say whether a request is to fail in this way."""
        return self.method in ("", method) and re.search(self.path, path) is not None


@dataclass(slots=True)
class Faults:
    """The failures that wait for their request, oldest first."""

    store: Store
    watchers: Watchers
    waiting: list[Fault] = field(default_factory=list)

    def add(self, fault: Fault) -> None:
        """Queue a failure."""
        self.waiting.append(fault)

    def clear(self) -> None:
        """Forget what has not happened yet."""
        self.waiting.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """Return the first failure that concerns a request, and count it down."""
        for fault in self.waiting:
            if fault.concerns(method, path):
                fault.times -= 1
                if fault.times <= 0:
                    self.waiting.remove(fault)
                return fault
        return None

    def cut_watches(self, plural: str = "") -> int:
        """Break the connections of all watches, or of those on one plural name; return how many."""
        kinds = [kind for kind in KINDS if plural in ("", kind.plural)]
        return sum(self.watchers.cut(kind) for kind in kinds)

    def expire_history(self) -> None:
        """Forget all changes so far: watches and pages that begin at older versions get 410 from now on."""
        self.store.forget()
