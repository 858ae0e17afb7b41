"""Work in small slices, and work that is shared."""

import asyncio
from collections.abc import Iterator

import pytest

from gpuloom.web.dashboard.asked import Asked
from gpuloom.web.dashboard.regions import DashboardPage
from gpuloom.web.dashboard.sharing import Sharing
from gpuloom.web.pacing import MOST_RESTS, Pace
from gpuloom.web.views.source import Viewer

ASKED = Asked("/", "/", (), (), Viewer())


def note_each(numbers: int, done: list[int]) -> Iterator[int]:
    for number in range(numbers):
        done.append(number)
        yield number


async def test_no_more_is_worked_out_than_is_wanted() -> None:
    done: list[int] = []
    assert await Pace().collect(note_each(3, done), limit=2) == [0, 1]
    assert done == [0, 1]


async def test_nothing_is_done_while_calls_are_being_answered() -> None:
    done: list[int] = []
    said: list[tuple[bool, int]] = []

    def is_busy() -> bool:
        said.append((len(said) < 3, len(done)))
        return said[-1][0]

    await Pace(is_busy).collect(note_each(1, done))
    assert said[:4] == [(True, 0), (True, 0), (True, 0), (False, 0)]


async def test_people_get_their_slices_where_calls_never_end() -> None:
    asked: list[None] = []

    def is_busy() -> bool:
        asked.append(None)
        return True

    done: list[int] = []
    assert await Pace(is_busy).collect(note_each(1, done)) == [0]
    assert len(asked) < 2 * MOST_RESTS


class Maker:
    """Makes pages when told to; ``made`` are their titles."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.go_on = asyncio.Event()
        self.faults: list[Exception] = []

    async def make(self, _: Asked) -> DashboardPage:
        self.made.append(f"page {len(self.made)}")
        title = self.made[-1]
        await self.go_on.wait()
        if self.faults:
            raise self.faults.pop()
        return DashboardPage(title=title, here="/")


async def begin(sharing: Sharing, people: int) -> list[asyncio.Task[DashboardPage]]:
    """Let people ask, one after the other."""
    tasks = [asyncio.create_task(sharing.make(ASKED)) for _ in range(people)]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_however_many_ask_at_once_two_pages_are_made() -> None:
    maker = Maker()
    tasks = await begin(Sharing(maker.make), 10)
    maker.go_on.set()
    titles = [page.title for page in await asyncio.gather(*tasks)]
    assert titles == ["page 0"] + ["page 1"] * 9
    assert maker.made == ["page 0", "page 1"]


async def test_nobody_is_shown_what_was_there_before_they_asked() -> None:
    maker = Maker()
    maker.go_on.set()
    sharing = Sharing(maker.make)
    assert [(await sharing.make(ASKED)).title for _ in range(2)] == ["page 0", "page 1"]


async def test_whoever_goes_away_takes_the_page_from_nobody() -> None:
    maker = Maker()
    first, second = await begin(Sharing(maker.make), 2)
    first.cancel()
    maker.go_on.set()
    assert (await second).title == "page 1"


async def test_a_page_that_fails_once_is_made_again_for_the_next() -> None:
    maker = Maker()
    maker.faults = [ValueError("not now")]
    first, second = await begin(Sharing(maker.make), 2)
    maker.go_on.set()
    with pytest.raises(ValueError, match="not now"):
        await first
    assert (await second).title == "page 1"
