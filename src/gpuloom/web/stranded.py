"""What is stranded, looked at aside every few seconds for all who ask, and the last hours of it.

The figures are those of the metric ``gpuloom_stranded_cards``, of caches that decisions use too: what is known there
is not worked out again, and what was not is found for the next decision as well.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field

from gpuloom.engine.filtering.stranded import StrandedByNode, StrandedShares
from gpuloom.scheduler.state import SchedulerState
from gpuloom.web.monitors.book import STEP_S
from gpuloom.web.monitors.hours import Hour, Hours
from gpuloom.web.pacing import Pace
from gpuloom.web.rounds import try_round

ROUND_S = 10.0
"""So old figures are at most: on 5,000 nodes of eight cards a look takes about a millisecond."""
POINTS_OF_USE = 6
"""A point stands for so many of the lines of use: all of them for six hours."""
_LEAST_FREE = 0.005
"""Cards; of less than this nobody can tell which part is stranded."""


@dataclass(slots=True)
class StrandedBook:
    """The figures of the last measurement, None before the first and where nothing is known; and a byte for each point.

    clock  seconds since 1970
    at     when that was
    """

    clock: Callable[[], float]
    point_s: float = POINTS_OF_USE * STEP_S
    at: float = 0.0
    total: StrandedShares | None = None
    _by_vendor: list[StrandedByNode] = field(default_factory=list)
    _hours: Hours = field(default_factory=lambda: Hours(1))

    def measure(self, state: SchedulerState) -> Generator[None, None, None]:
        """Measure what is stranded on all nodes, a vendor's at a time."""
        found: list[StrandedByNode] = []
        for word, scheduler in state.pod_scheduler.by_vendor.items():
            yield
            table = state.cluster[word].table
            if table.positions and (one := scheduler.filter_cache.list_stranded(table)) is not None:
                found.append(one)
        self._by_vendor = found
        self.total = _add([one.total() for one in found])
        self.at = self.clock()
        percent = None
        if self.total is not None and self.total.free >= _LEAST_FREE:
            percent = round(100 * self.total.stranded / self.total.free)
        self._hours.put(self._slot(), [percent], most_held=1)

    def node(self, name: str) -> StrandedShares | None:
        """Return what is stranded on a node, None where that is not known."""
        return _add([one.node(name) for one in self._by_vendor if name in one.column_of])

    def hours(self) -> Hour:
        """Return the last hours: per cent of what was free."""
        return self._hours.read(0, self._slot())

    def _slot(self) -> int:
        return int(self.clock() // self.point_s)


def _add(shares: list[StrandedShares]) -> StrandedShares | None:
    return StrandedShares(*map(sum, zip(*shares, strict=True))) if shares else None


async def follow(
    book: StrandedBook,
    state: SchedulerState,
    pace: Pace,
    interval_s: float,
    sleep: Callable[[float], Awaitable[object]],
) -> None:
    """Measure again and again until cancelled."""
    while True:
        await try_round(pace.finish(book.measure(state)), "stranded cards")
        await sleep(interval_s)
