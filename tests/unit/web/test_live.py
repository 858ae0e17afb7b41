"""Pages kept up to date, whatever making them waits for."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from markupsafe import Markup

from gpuloom.web.dashboard import live
from gpuloom.web.dashboard.asked import Asked
from gpuloom.web.dashboard.live import Live
from gpuloom.web.dashboard.measuring import Measured
from gpuloom.web.dashboard.regions import DashboardPage
from gpuloom.web.pacing import Pace
from gpuloom.web.refusals import RefusedError
from gpuloom.web.views.source import Viewer

DEADLINE_S = 20
Make = Callable[[Asked], Awaitable[DashboardPage]]


def asked_for(path: str) -> Asked:
    return Asked(path, path, (), (), Viewer())


def page_of(text: str) -> DashboardPage:
    return DashboardPage(title="t", here="/", regions={"r": Markup(text)})


@asynccontextmanager
async def look_at(make: Make) -> AsyncIterator[Live]:
    pages = Live(make, Pace())
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield pages
    finally:
        await pages.close()


class Answers:
    """Makes one page as a test says, time by time."""

    def __init__(self) -> None:
        self._said: asyncio.Queue[DashboardPage | Exception] = asyncio.Queue()

    def say(self, answer: DashboardPage | Exception) -> None:
        self._said.put_nowait(answer)

    async def make(self, _: Asked) -> DashboardPage:
        answer = await self._said.get()
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def _look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INTERVAL_S", "RETRY_S"):
        monkeypatch.setattr(live, name, 0.0)


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    async def wait_long(self) -> None:
        """Wait while others use up 1,000 seconds."""
        passed = asyncio.Event()

        def pass_time() -> None:
            self.now_s += 1000
            passed.set()

        asyncio.get_running_loop().call_soon(pass_time)
        await passed.wait()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now_s)
    return clock


async def test_a_page_that_takes_long_holds_up_no_other() -> None:
    never = asyncio.Event()

    async def make(asked: Asked) -> DashboardPage:
        if asked.path == "/slow":
            await never.wait()
        return page_of(asked.path)

    async with look_at(make) as pages:
        pages.join(asked_for("/slow"), "somebody", "")
        quick = pages.join(asked_for("/quick"), "somebody", "")
        await quick.news.wait()
    assert quick.changes == {"r": b'"/quick"'}


async def test_service_accounts_of_one_namespace_keep_nobody_from_following_a_page() -> None:
    """trust T-09: whoever may make one may make many."""
    async with look_at(Answers().make) as pages:
        greedy = [
            pages.join(asked_for("/"), f"system:serviceaccount:evil:a{number // live.MOST_OF_ONE}", "")
            for number in range(live.MOST_STREAMS)
        ]
        pages.join(asked_for("/"), "somebody", "")
        assert [number for number, one in enumerate(greedy) if one.over] == [0]


async def test_a_page_that_had_to_wait_is_looked_at_again_as_soon_as_others(clock: Clock) -> None:
    looks, again = 0, asyncio.Event()

    async def make(_: Asked) -> DashboardPage:
        nonlocal looks
        looks += 1
        if looks > 1:
            again.set()
        await clock.wait_long()
        return page_of("r")

    async with look_at(make) as pages:
        pages.join(asked_for("/"), "somebody", "")
        await again.wait()


async def test_of_work_its_own_steps_are_measured_alone(clock: Clock) -> None:
    async def work() -> str:
        clock.now_s += 1
        await clock.wait_long()
        clock.now_s += 2
        return "done"

    measured = Measured(work())
    assert await measured == "done"
    assert measured.spent_s == 3


async def test_work_that_is_measured_is_told_that_it_is_cancelled() -> None:
    said: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            said.append("tidied up")

    async def measure() -> None:
        await Measured(work())

    task = asyncio.create_task(measure())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert said == ["tidied up"]


@pytest.mark.parametrize("code", [404, 422, 503])
async def test_a_page_that_cannot_be_made_for_a_while_says_why_and_is_live_again_after(code: int) -> None:
    answers = Answers()
    async with look_at(answers.make) as pages:
        stream = pages.join(asked_for("/"), "somebody", page_of("before").state)
        answers.say(RefusedError(code, "not now"))
        await stream.news.wait()
        assert (stream.trouble, stream.over, stream.take()) == ("not now", "", {})
        answers.say(page_of("after"))
        await stream.news.wait()
        assert (stream.trouble, stream.over, stream.take()) == ("", "", {"r": b'"after"'})


async def test_whoever_comes_while_a_page_cannot_be_made_is_told_too() -> None:
    answers = Answers()
    async with look_at(answers.make) as pages:
        first = pages.join(asked_for("/"), "somebody", "")
        answers.say(RefusedError(503, "not now"))
        await first.news.wait()
        assert pages.join(asked_for("/"), "somebody", "").trouble == "not now"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (RefusedError(403, "no right"), "no right"),
        (ValueError("a mistake"), "this page cannot be made: the scheduler's log says why"),
    ],
)
async def test_a_page_without_rights_or_with_a_fault_ends_and_begins_anew_for_who_asks_again(
    fault: Exception, why: str
) -> None:
    answers = Answers()
    async with look_at(answers.make) as pages:
        first = pages.join(asked_for("/"), "somebody", "")
        answers.say(fault)
        await first.news.wait()
        assert first.over == why
        second = pages.join(asked_for("/"), "somebody", "")
        pages.leave(asked_for("/"), first)
        answers.say(page_of("again"))
        await second.news.wait()
        assert (second.over, second.changes) == ("", {"r": b'"again"'})


async def test_nothing_is_made_for_nobody() -> None:
    answers = Answers()
    async with look_at(answers.make) as pages:
        left = pages.join(asked_for("/"), "somebody", "")
        pages.leave(asked_for("/"), left)
        stays = pages.join(asked_for("/other"), "somebody", "")
        answers.say(page_of("other"))
        await stays.news.wait()
    assert stays.changes == {"r": b'"other"'}
