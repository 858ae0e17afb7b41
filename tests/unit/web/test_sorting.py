"""Tables in the order that somebody asks for."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from gpuloom.web.dashboard import asked
from gpuloom.web.dashboard.asked import Asked, turn
from gpuloom.web.dashboard.sorting import Sorting, read_sorting, take_first
from gpuloom.web.views.source import Viewer

COLUMNS = {"name": False, "memory": True}


def read(**options: str) -> Sorting:
    return read_sorting(Asked("/nodes", "/nodes", (), tuple(options.items()), Viewer()), COLUMNS)


def do_nothing() -> None:
    pass


def first_of(
    items: list[tuple[int, str]],
    count: int,
    *,
    is_reversed: bool,
    key: Callable[[tuple[int, str]], object] = lambda item: item[0],
    after_step: Callable[[], None] = do_nothing,
) -> list[tuple[int, str]]:
    steps = take_first(items, count, key, is_reversed=is_reversed)
    while True:
        try:
            next(steps)
            after_step()
        except StopIteration as end:
            found: list[tuple[int, str]] = end.value
            return found


def test_a_table_is_sorted_by_its_first_column_unless_something_else_is_asked_for() -> None:
    assert (read().key, read().is_reversed) == ("name", False)
    assert (read(sort="-memory").key, read(sort="-memory").is_reversed) == ("memory", True)


def test_by_what_no_column_is_called_a_table_is_sorted_as_if_nothing_was_asked() -> None:
    assert read(sort="<script>").option == "name"


def test_a_heading_begins_with_its_own_order_and_then_turns() -> None:
    assert read().links["memory"] == "/nodes?sort=-memory"
    assert read(sort="-memory").links["memory"] == "/nodes?sort=memory"
    assert read().links["name"] == "/nodes?sort=-name"


def test_a_heading_keeps_the_filters_and_leads_to_the_first_page() -> None:
    assert read(q="a", page="3").links["memory"] == "/nodes?q=a&sort=-memory"


def test_a_column_says_in_arias_words_how_it_is_sorted() -> None:
    assert (read(sort="-memory").state("memory"), read(sort="-memory").state("name")) == ("descending", "none")
    assert read().state("name") == "ascending"


def test_the_first_of_many_are_those_of_the_whole_order() -> None:
    items = [(number * 7919 % 1009, str(number)) for number in range(1000)]
    assert first_of(items, 30, is_reversed=False) == sorted(items)[:30]


def test_those_that_are_alike_stay_in_their_order() -> None:
    items = [(number % 2, str(number)) for number in range(1000)]
    assert [name for _, name in first_of(items, 3, is_reversed=True)] == ["1", "3", "5"]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_all_of_many_come_in_the_whole_order(*, is_reversed: bool) -> None:
    items = [(number * 7919 % 97, str(number)) for number in range(3000)]
    found = first_of(items, 10**8, is_reversed=is_reversed)
    assert found == sorted(items, key=lambda item: item[0], reverse=is_reversed)


class Compared:
    """A number that notes how often such numbers are compared."""

    def __init__(self, number: int, compared: list[int]) -> None:
        self.number = number
        self._compared = compared

    def __lt__(self, other: "Compared") -> bool:
        self._compared[0] += 1
        return self.number < other.number


def test_by_what_something_is_sorted_is_worked_out_once_however_late_the_page() -> None:
    asked_of: list[int] = []

    def key(item: tuple[int, str]) -> int:
        asked_of.append(item[0])
        return item[0]

    first_of([(number * 7919 % 5003, "") for number in range(5000)], 10**8, is_reversed=False, key=key)
    assert len(asked_of) == 5000


def test_no_step_of_sorting_grows_with_the_table() -> None:
    compared, steps = [0], [0]
    items = [(number * 7919 % 20011, "") for number in range(20000)]
    first_of(
        items,
        10**8,
        is_reversed=False,
        key=lambda item: Compared(item[0], compared),
        after_step=lambda: steps.append(compared[0]),
    )
    assert max(after - before for before, after in pairwise(steps)) < 6000


def at(page: str, count: int) -> tuple[int, str, str]:
    turning = turn(Asked("/pods", "/pods", (), (("page", page), ("q", "a")), Viewer()), count)
    return turning.number, turning.before, turning.after


def test_neighbouring_pages_keep_what_is_searched_for() -> None:
    assert at("1", 101) == (1, "", "/pods?page=2&q=a")
    assert at("2", 201) == (2, "/pods?q=a", "/pods?page=3&q=a")
    assert at("3", 201) == (3, "/pods?page=2&q=a", "")


@pytest.mark.parametrize("page", ["2", "999999"])
def test_a_page_beyond_the_end_is_the_last(page: str) -> None:
    assert at(page, asked.ROWS) == (1, "", "")
    assert at(page, 0) == (1, "", "")
