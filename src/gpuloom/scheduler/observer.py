"""Who listens to what the decision core is told and what it answers: a recorder of the running process."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from gpuloom.scheduler.filter.verb import FilterVerb
from gpuloom.wire.admission import Review, Verdict
from gpuloom.wire.extender import BindArgs, FilterArgs, FilterResult
from gpuloom.wire.objects import KubeObject

FilterCall = Callable[[FilterArgs], Awaitable[FilterResult]]
BindCall = Callable[[BindArgs], Awaitable[None]]
ReviewCall = Callable[[Review], Verdict]


class Listener(Protocol):
    """Is told facts when they are applied, and put around calls. Nothing here may raise, block or change anything."""

    def hear_list(self, kind: str, items: Iterable[KubeObject]) -> None:
        """Hear all objects of a kind; those known before and not among them are gone."""

    def hear_change(self, kind: str, item: KubeObject, *, is_gone: bool = False) -> None:
        """Hear one object as it is now, or that it is gone."""

    def hear_pass(self) -> None:
        """Hear that all nodes are looked at."""

    def hear_forgotten(self, uid: str, why: str) -> None:
        """Hear that a timer ended a reservation."""

    def around_filter(self, verb: FilterVerb) -> FilterCall:
        """Wrap the filter call."""

    def around_bind(self, call: BindCall) -> BindCall:
        """Wrap the bind call."""

    def around_review(self, call: ReviewCall) -> ReviewCall:
        """Wrap the webhook."""
