"""Decisions in a cluster of all families: for every family the first decision about a new shape, and repeated ones.

What is measured is what a call does, without HTTP: the names as text in, node and cards out, and the reservation. A
decision that takes long is made in pages, as the filter call makes them, other calls in between. Of pods of one
container and one family the decision alone is measured too, ``by_rows``: candidate rows in, as the goals are meant.
All times are of the processor, so that it does not matter what else the machine does.
"""

import gc
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import TypeVar

import msgspec

from benchmarks.figures import print_case, summarize
from benchmarks.scheduling.mixture import CATALOG, PARTNER, Mixture, make_mixture, make_pod
from gpuloom.cli.outcomes import CommandError
from gpuloom.engine.decision.decision import Decision, UnsettledError
from gpuloom.engine.filtering.candidates import Candidates
from gpuloom.engine.filtering.compiled_profile import compile_profile
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.scheduler.filter.verb import MOST_TRIES
from gpuloom.scheduler.timeslice import SLICE_S
from gpuloom.vendors.profile import Profile
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Pod

ANEW = 5
REPEATED = 300
HELD = 30
"""Pods of the benchmark that are on the cluster at a time; the oldest leaves for each that comes."""
REPEATED_GOAL_MS = 0.05
NEW_GOAL_MS, NEW_GOAL_SEVERAL_MS = 1.0, 15.0
HOOKED_NEW_GOAL_MS = 50.0
HOOKED_FACTOR = 5


Figures = dict[str, float | None]
_Measured = TypeVar("_Measured")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of pod that is asked about, ``words`` for the reader."""

    words: str
    asked: tuple[Profile, ...]
    containers: int = 1
    cards: int = 1

    @property
    def is_hooked(self) -> bool:
        """Whether any of its families has hooks."""
        return any(compile_profile(profile, Options()).is_hooked for profile in self.asked)

    @property
    def is_simple(self) -> bool:
        """Whether one container asks for one family's cards."""
        return self.containers == 1 and len(self.asked) == 1

    @property
    def new_goal_ms(self) -> float:
        """Goal for the first decision."""
        if self.is_hooked:
            return HOOKED_NEW_GOAL_MS
        return NEW_GOAL_MS if self.is_simple else NEW_GOAL_SEVERAL_MS

    @property
    def goal_ms(self) -> float | None:
        """Goal for half of the repeated decisions by rows, None where there is none."""
        if not self.is_simple:
            return None
        return REPEATED_GOAL_MS * (HOOKED_FACTOR if self.is_hooked else 1)


@dataclass(slots=True)
class Paged:
    """How long a decision took, and the longest part of it during which no other call was answered; in seconds."""

    pod_decision: Decision
    total_s: float
    longest_s: float


@dataclass
class Caller:
    """Asks as filter calls do."""

    mixture: Mixture
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self._state = self.mixture.parts.state
        self._text = msgspec.json.encode(self.mixture.names)

    def read(self, kind: Kind, variant: int = 0) -> tuple[str, Demands]:
        """Make a pod and read what it asks for."""
        made = make_pod(next(self.numbers), *kind.asked, containers=kind.containers, cards=kind.cards, variant=variant)
        pod = msgspec.convert(made, Pod)
        return pod.metadata.uid, self._state.settings.read_demands(pod)

    def decide(self, uid: str, demands: Demands) -> Paged:
        """Decide and reserve."""
        names = NodeNames(self._text)
        parts = [began_s := time.process_time()]
        try:
            pod_decision = self._ask(demands, names, MOST_TRIES)
        except UnsettledError as error:
            for _ in error.steps:
                if time.process_time() - parts[-1] >= SLICE_S:
                    parts.append(time.process_time())
            parts.append(time.process_time())
            pod_decision = self._ask(demands, names, None)
        self._reserve(uid, demands, pod_decision)
        parts.append(time.process_time())
        # What comes after a reply is not made here, and would hold the cards as they were until it is.
        pod_decision.abandon()
        steps = [after - before for before, after in pairwise(parts)]
        return Paged(pod_decision, parts[-1] - began_s, max(steps))

    def _ask(self, demands: Demands, names: NodeNames, most_tries: int | None) -> Decision:
        return self._state.pod_scheduler.decide_among(demands, names, most_tries=most_tries)

    def decide_by_rows(self, uid: str, demands: Demands, candidates: Candidates) -> float:
        """Decide and reserve for a pod of one family; return the seconds that it took."""
        ((word, demand),) = demands.items()
        began_s = time.process_time()
        decision = self._state.pod_scheduler.by_vendor[word].decide(demand, candidates)
        self._reserve(uid, demands, decision)
        return time.process_time() - began_s

    def find_rows(self, kind: Kind) -> Candidates:
        """Find the rows of all nodes for pods of one family."""
        return self._state.pod_scheduler.by_vendor[kind.asked[0].word].look_up(self.mixture.names)

    def _reserve(self, uid: str, demands: Demands, chosen: Decision) -> None:
        if chosen.node is None:
            return
        demand = next(iter(demands.values()))
        self._state.cluster.assume(
            Reservation(
                uid=uid,
                namespace=demand.namespace,
                name=demand.name,
                node=chosen.node,
                shares=chosen.shares,
                instances=chosen.instances,
                container_types=demand.container_types,
                status=ReservationStatus.ASSUMED,
                since=0.0,
                extras=chosen.extras,
            )
        )

    def release(self, uid: str) -> None:
        """Give back what a decision reserved."""
        self._state.cluster.forget(uid)

    def forget(self) -> None:
        """Forget all verdicts: the next shape is a new one."""
        for vendor_scheduler in self._state.pod_scheduler.by_vendor.values():
            vendor_scheduler.forget_all()


def run_vendors(sizes: tuple[int, ...], *, most_of: str = "") -> None:
    """Print the cases for clusters of so many nodes, and a table of all to the standard error.

    Raises CommandError when ``most_of`` is no family.
    """
    if most_of and CATALOG.find(most_of) is None:
        raise CommandError(f"no family is called {most_of!r}: known are {', '.join(one.word for one in CATALOG)}")
    for nodes in sizes:
        caller = Caller(make_mixture(nodes, most_of))
        gc.collect()
        gc.freeze()
        rows = []
        for kind in list_kinds(most_of):
            figures = measure(caller, kind)
            print_case(f"decision, {kind.words}", nodes=nodes, **figures)
            rows.append((kind, figures))
        sys.stderr.write(tabulate(nodes, rows))


def list_kinds(only: str = "") -> Iterator[Kind]:
    """Give every family's pods: of one container, of two, and with cards of another family beside."""
    for profile in CATALOG if not only else (CATALOG[only],):
        word = profile.word
        yield Kind(word, (profile,))
        yield Kind(f"{word}, two containers", (profile,), containers=2)
        if word != PARTNER:
            yield Kind(f"{word} and {PARTNER}", (profile, CATALOG[PARTNER]))
            yield Kind(f"{word} and {PARTNER}, two containers", (profile, CATALOG[PARTNER]), containers=2)


def measure(caller: Caller, kind: Kind) -> Figures:
    """Return the figures of one kind of pod, in milliseconds of the processor."""
    new = [_ask_anew(caller, kind) for _ in range(ANEW)]
    repeated = _repeat(caller, kind, caller.decide)
    figures = summarize([one.total_s for one in repeated])
    by_rows = _repeat(caller, kind, _by_rows(caller, kind)) if kind.is_simple else None
    return {
        "new_ms": _middle([one.total_s for one in new]),
        "new_longest_part_ms": _middle([one.longest_s for one in new]),
        "new_goal_ms": kind.new_goal_ms,
        **figures,
        "longest_part_ms": max(one.longest_s for one in repeated) * 1e3,
        "by_rows_p50_ms": None if by_rows is None else _middle(by_rows),
        "by_rows_goal_ms": kind.goal_ms,
        "fits": sum(one.pod_decision.node is not None for one in repeated),
    }


def _middle(times_s: Sequence[float]) -> float:
    return sorted(times_s)[len(times_s) // 2] * 1e3


def _ask_anew(caller: Caller, kind: Kind) -> Paged:
    caller.forget()
    uid, demands = caller.read(kind)
    paged = caller.decide(uid, demands)
    caller.release(uid)
    return paged


def _by_rows(caller: Caller, kind: Kind) -> Callable[[str, Demands], float]:
    candidates = caller.find_rows(kind)
    return lambda uid, demands: caller.decide_by_rows(uid, demands, candidates)


def _repeat(caller: Caller, kind: Kind, decide: Callable[[str, Demands], _Measured]) -> list[_Measured]:
    held: deque[str] = deque()
    found = []
    for _ in range(REPEATED):
        uid, demands = caller.read(kind)
        found.append(decide(uid, demands))
        held.append(uid)
        if len(held) > HELD:
            caller.release(held.popleft())
    for uid in held:
        caller.release(uid)
    return found


def tabulate(nodes: int, rows: Sequence[tuple[Kind, Figures]]) -> str:
    """Return a table of all cases with the goals beside them; a star marks what misses its goal."""
    lines = [
        f"{nodes} nodes, ms of the processor; * misses its goal",
        f"{'':42}{'first':>10}{'goal':>6}{'longest part':>14}{'repeated p50':>14}{'p99':>8}{'by rows':>10}{'goal':>6}",
    ]
    for kind, figures in rows:
        first, longest, p50, p99 = (figures[name] for name in ("new_ms", "new_longest_part_ms", "p50_ms", "p99_ms"))
        lines.append(
            f"{kind.words:42}{_mark(first, kind.new_goal_ms)}{kind.new_goal_ms:6g}{longest:14.2f}    "
            f"{p50:10.2f}{p99:8.2f}{_mark(figures['by_rows_p50_ms'], kind.goal_ms)}{kind.goal_ms or '-':>6}"
        )
    return "\n".join(lines) + "\n"


def _mark(figure: float | None, goal: float | None) -> str:
    if figure is None:
        return f"{'-':>9} "
    return f"{figure:9.3g}{'*' if goal is not None and figure > goal else ' '}"
