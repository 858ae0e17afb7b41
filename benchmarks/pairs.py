"""Whole calls of two checkouts, side by side, to see whether this one is slower than the other.

``PYTHONPATH=tests python -m benchmarks.pairs OTHER`` starts the scheduler of this checkout and that of OTHER, a folder
with an environment of its own (``git worktree add --detach OTHER COMMIT``, then ``make .venv/ready`` in it). Both run
at the same time, each beside a stand-in API server, and are asked in turn, call by call, so what else the machine does
meets both alike; they share one processor, for those of a machine need not be equally quick. Prints for each case of
``gpuloom bench calls`` the median times that calls wait for each scheduler, and how many times the other's this one's
is; last, the middle of all cases.
"""

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.companions import keep_off_last_processor, move_to
from benchmarks.figures import print_case
from benchmarks.scheduling.calls import (
    CALLS,
    EVENT_RATES,
    Case,
    Connection,
    count_warm,
    list_cases,
    run_scheduler,
)
from benchmarks.scheduling.generator import name_nodes


def run_pairs(other: Path, nodes: int, events: list[int], calls: int) -> None:
    """Print how many times as long calls of this checkout take, by case and rate of events."""
    last = keep_off_last_processor()
    ratios = [ratio for events_per_s in events for ratio in run_cases(other, nodes, events_per_s, calls, last)]
    print_case("all cases", nodes=nodes, middle=statistics.median(ratios), least=min(ratios), most=max(ratios))


def run_cases(other: Path, nodes: int, events_per_s: int, calls: int, processor: int) -> Iterator[float]:
    """Print the cases at which so many events a second arrive; yield how many times as long each takes.

    Both schedulers run on one processor.
    """
    gpuloom = other.resolve() / ".venv" / "bin" / "gpuloom"
    with run_scheduler(nodes, events_per_s) as this, run_scheduler(nodes, events_per_s, gpuloom=gpuloom) as that:
        move_to(processor, this.pid, that.pid)
        for whole in list_cases(name_nodes(nodes)):
            case = replace(whole, calls=min(whole.calls, calls))
            this_ms, that_ms = (statistics.median(times) for times in time_both(case, this.connection, that.connection))
            print_case(
                f"/filter, {case.text}",
                nodes=nodes,
                events_per_s=events_per_s,
                this_p50_ms=this_ms,
                other_p50_ms=that_ms,
                ratio=this_ms / that_ms,
            )
            yield this_ms / that_ms


def time_both(case: Case, *connections: Connection) -> list[list[float]]:
    """Time the calls of a case, in ms; who is asked first changes from call to call."""
    times: list[list[float]] = [[] for _ in connections]
    both = list(zip(connections, times, strict=True))
    for turn in range(count_warm(case) + case.calls):
        for connection, taken in both if turn % 2 else reversed(both):
            taken.append(connection.time_call(case, turn)[1] * 1e3)
    return [taken[count_warm(case) :] for taken in times]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--events", type=int, nargs="*", default=list(EVENT_RATES), help="changes of pods a second")
    parser.add_argument("--calls", type=int, default=CALLS, help="at most, of each case")
    given = parser.parse_args()
    run_pairs(given.other, given.nodes, given.events, given.calls)
