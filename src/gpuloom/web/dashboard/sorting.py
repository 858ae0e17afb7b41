"""Tables in the order that somebody asks for: the links of their headings, and the rows that come first."""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

from gpuloom.web.dashboard.asked import Asked
from gpuloom.web.pacing import gather

_ITEMS_A_RUN = 500
"""So many are sorted in one step."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorting:
    """By which column a table is sorted, and where each column's heading leads."""

    key: str
    is_reversed: bool
    links: Mapping[str, str]

    def state(self, key: str) -> str:
        """Say in ARIA's words how a column is sorted."""
        if key != self.key:
            return "none"
        return "descending" if self.is_reversed else "ascending"

    @property
    def option(self) -> str:
        """What the address says of it."""
        return f"-{self.key}" if self.is_reversed else self.key


def read_sorting(asked: Asked, columns: Mapping[str, bool]) -> Sorting:
    """Read by what to sort; ``columns`` says of each whether it begins with the most. The first is the default.

    A heading leads to its column's own order, the heading of the sorted column to the opposite one.
    """
    text = asked.option("sort")
    key = text.removeprefix("-")
    if key in columns:
        is_reversed = text.startswith("-")
    else:
        key, is_reversed = next(iter(columns.items()))
    links = {
        one: asked.link(sort=f"-{one}" if (not is_reversed if one == key else starts_with_most) else one, page="")
        for one, starts_with_most in columns.items()
    }
    return Sorting(key=key, is_reversed=is_reversed, links=links)


def take_first(
    items: Iterable[_T], count: int, key: Callable[[_T], Any], *, is_reversed: bool
) -> Generator[None, None, list[_T]]:
    """Return those that come first of many, in order.

    Each key is worked out once, and what one step does hardly grows with the items.
    """
    left, by_key = iter(items), itemgetter(0)
    runs = []
    while run := (yield from gather((key(item), item) for item in islice(left, _ITEMS_A_RUN))):
        runs.append(sorted(run, key=by_key, reverse=is_reversed))
        yield
    merged = merge(*runs, key=by_key, reverse=is_reversed)
    return (yield from gather((item for _, item in merged), count))
