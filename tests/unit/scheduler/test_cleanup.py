"""Ending what nobody will use (binding 2.2)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from builders import pod
from msgspec.structs import replace

from gpuloom.engine.request.demand import ContainerType
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.kube import NotFoundError
from gpuloom.model.share import Share
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.pods.cleanup import QUESTIONS_AT_ONCE, UNBOUND_LIMIT_S, ReservationCleanup
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState

NOW_S = 2000.0


def reservation(uid: str, age_s: float) -> Reservation:
    shares = {"NVIDIA": ((Share("card", "NVIDIA", 100, 10),),)}
    return Reservation(uid, "ns", uid, "n1", shares, (ContainerType.REGULAR,), ReservationStatus.ASSUMED, NOW_S - age_s)


class Setting:
    """A process in charge. The API server knows no pod; ``meanwhile`` happens while it is asked."""

    def __init__(self) -> None:
        self.state = SchedulerState(SchedulerSettings())
        self.state.charge.since = 0.0
        stand_in: Any = self
        self.cleanup = ReservationCleanup(stand_in, self.state, stand_in, Clocks(monotonic=lambda: NOW_S))
        self.meanwhile: Callable[[], object] = lambda: None
        self.underway = self.most = 0

    async def get(self, *_: object, **__: object) -> None:
        self.underway += 1
        self.most = max(self.most, self.underway)
        await asyncio.sleep(0)
        self.underway -= 1
        self.meanwhile()
        raise NotFoundError("get", "pod", 404, "no such pod")

    async def sweep(self) -> None:
        """Sweep no locks."""


async def test_reservations_that_nobody_uses_end() -> None:
    s = Setting()
    for one in (reservation("unseen", 10), reservation("forgotten", UNBOUND_LIMIT_S + 1), reservation("new", 1)):
        s.state.cluster.assume(one)
    await s.cleanup.check()
    assert [one.uid for one in s.state.cluster.ledger] == ["new"]


async def test_very_many_pods_are_asked_for_a_few_side_by_side() -> None:
    s = Setting()
    for number in range(3 * QUESTIONS_AT_ONCE):
        s.state.cluster.assume(reservation(f"unseen-{number}", 10))
        bind(s, f"gone-{number}", 10)
    await s.cleanup.check()
    assert (s.most, len(s.state.cluster.ledger)) == (QUESTIONS_AT_ONCE, 0)


@pytest.mark.parametrize("standing", list(ReservationStatus))
async def test_a_reservation_made_anew_or_confirmed_while_others_are_asked_about_stays(
    standing: ReservationStatus,
) -> None:
    s = Setting()
    s.state.cluster.assume(reservation("unseen", 10))
    old = s.state.cluster.assume(reservation("busy", UNBOUND_LIMIT_S + 1))
    if standing is ReservationStatus.CONFIRMED:
        s.meanwhile = lambda: s.state.cluster.confirm("busy")
    else:
        s.meanwhile = lambda: s.state.cluster.assume(replace(old, since=NOW_S))
    await s.cleanup.check()
    assert [one.uid for one in s.state.cluster.ledger] == ["busy"]


def bind(s: Setting, name: str, age_s: float) -> None:
    s.state.cluster.assume(reservation(name, age_s))
    s.state.cluster.confirm(name)
    s.state.binds.note_bound(name, s.state.shown.pods.get(name), NOW_S - age_s)


async def test_a_bound_pod_that_the_watch_never_shows_holds_nothing_once_it_is_gone() -> None:
    s = Setting()
    bind(s, "gone", 10)
    bind(s, "new", 1)
    await s.cleanup.check()
    assert [one.uid for one in s.state.cluster.ledger] == ["new"]


async def test_a_bound_pod_that_the_watch_shows_while_it_is_asked_for_keeps_its_cards() -> None:
    s = Setting()
    bind(s, "late", 10)
    s.meanwhile = lambda: s.state.shown.pods.update(late=pod(name="late", gpu=1))
    await s.cleanup.check()
    await s.cleanup.check()
    assert [one.uid for one in s.state.cluster.ledger] == ["late"]
    assert s.state.binds.unshown == {}


async def test_a_refused_pod_that_the_watch_does_not_show_waits_for_a_minute() -> None:
    s = Setting()
    for name, age_s in (("young", 59.0), ("old", 61.0)):
        refused = pod(name=name, gpu=1)
        s.state.waiting.note_refused(refused, s.state.settings.read_demands(refused), NOW_S - age_s)
    await s.cleanup.check()
    assert [one.pod.name for one in s.state.waiting.unschedulable.values()] == ["young"]
