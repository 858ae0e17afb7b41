"""Tables in the order that somebody asks for."""

from gpuloom.web.dashboard.asked import Asked
from gpuloom.web.dashboard.sorting import Sorting, read_sorting, take_first
from gpuloom.web.views.source import Viewer

COLUMNS = {"name": False, "memory": True}


def read(**options: str) -> Sorting:
    return read_sorting(Asked("/nodes", "/nodes", (), tuple(options.items()), Viewer()), COLUMNS)


def first_of(items: list[tuple[int, str]], count: int, *, is_reversed: bool) -> list[tuple[int, str]]:
    steps = take_first(items, count, lambda item: item[0], is_reversed=is_reversed)
    while True:
        try:
            next(steps)
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
