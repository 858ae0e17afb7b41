"""What a pod is nominated for is written in the order in which it was decided."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
from builders import pod
from msgspec.structs import replace

from gpuloom.engine.state.nominations import Nomination
from gpuloom.kube import KubeClient
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.charge import StoppedError
from gpuloom.scheduler.preemption.nominating import nominate
from gpuloom.scheduler.preemption.writing import NominationWriter
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.keys import NOMINATED

PREEMPTOR = pod(name="high", gpu=1)


class Setting:
    """A pod that waits, and an API server that answers when it is let."""

    def __init__(self) -> None:
        self.state = SchedulerState(SchedulerSettings(preemption="on"))
        self.state.charge.since = 0.0
        self.state.shown.pods[PREEMPTOR.metadata.uid] = PREEMPTOR
        self.answers = asyncio.Event()
        self.written: list[str | None] = []
        self.writer = NominationWriter(cast("KubeClient", self), self.state, Clocks())

    async def patch(
        self, _resource: object, _name: str, body: Mapping[str, Any], *, recheck: Callable[[], None], **_: object
    ) -> None:
        recheck()
        self.written.append(body["metadata"]["annotations"][NOMINATED])
        await self.answers.wait()

    def nominate(self, node: str) -> Nomination:
        nomination = nominate(self.state, PREEMPTOR.metadata.uid, node, 0)
        assert nomination is not None
        return nomination

    def start_write(self, nomination: Nomination) -> "asyncio.Task[bool]":
        return asyncio.create_task(self.writer.write(PREEMPTOR, nomination, lambda: None))

    def start_clear(self, nomination: Nomination) -> "asyncio.Task[None]":
        self.state.nominations.end(nomination.uid, "no_room")
        return asyncio.create_task(self.writer.clear(nomination))


async def let_others_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_new_nomination_is_not_overtaken_by_the_end_of_the_one_before() -> None:
    s = Setting()
    clearing = s.start_clear(s.nominate("n1"))
    await let_others_run()
    writing = s.start_write(s.nominate("n2"))
    await let_others_run()
    assert s.written == [None]
    s.answers.set()
    await asyncio.gather(clearing, writing)
    assert [str(one)[:3] for one in s.written] == ["Non", "n2;"]


async def test_a_pod_that_is_nominated_again_while_its_turn_is_waited_for_keeps_that() -> None:
    s = Setting()
    first = s.nominate("n1")
    writing = s.start_write(first)
    await let_others_run()
    clearing = s.start_clear(first)
    s.nominate("n2")
    s.answers.set()
    await asyncio.gather(writing, clearing)
    assert [str(one)[:3] for one in s.written] == ["n1;"]


async def test_how_long_room_was_unclaimed_says_nothing_about_the_next_node() -> None:
    s = Setting()
    uid = s.nominate("n1").uid
    s.state.nominations.unclaimed_since[uid] = 1.0
    s.nominate("n2")
    assert s.state.nominations.unclaimed_since == {}


async def test_a_nomination_is_not_written_of_which_nothing_may_be_written_any_more() -> None:
    s = Setting()
    s.answers.set()

    def stop() -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        await s.writer.write(PREEMPTOR, s.nominate("n1"), stop)
    assert s.written == []


async def test_who_is_not_in_charge_any_more_takes_no_nomination_off() -> None:
    """binding 5: no new write starts."""
    s = Setting()
    nomination = s.nominate("n1")
    s.state.charge.obstacle = "another process leads"
    s.answers.set()
    await s.start_clear(nomination)
    assert s.written == []


async def test_the_nomination_of_a_pod_that_is_bound_stays_on_it() -> None:
    s = Setting()
    nomination = s.nominate("n1")
    s.state.shown.pods[nomination.uid] = replace(PREEMPTOR, spec=replace(PREEMPTOR.spec, node_name="n1"))
    s.answers.set()
    await s.start_clear(nomination)
    assert s.written == []
