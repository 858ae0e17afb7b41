"""The decision alone: demand and candidates in, a decision, its reservation and the refit that it causes out."""

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from random import Random

import msgspec

from benchmarks.figures import print_case, summarize
from benchmarks.scheduling.generator import CARDS_PER_NODE, ClusterObjects, Json, Scale, make_cluster, make_pod
from benchmarks.scheduling.subjects import Oracle, Subject, make_subject
from gpuloom.engine.request.demand import Demand
from gpuloom.engine.scoring.fragmentation.pod_mix import ExpectedShape, PodMix
from gpuloom.engine.scoring.fragmentation.usual_mix import USUAL_MIX
from gpuloom.engine.state.outlook import HostCpu
from gpuloom.wire.keys import NODE_POLICY
from gpuloom.wire.objects import Pod

REPEATED = 3000
NEW_SHAPES = 40
HELD = 500
"""Pods of the benchmark that are on the cluster at a time; the oldest leaves for each that comes."""
ORACLE_CALLS = 3
MAX_MEMORY_MIB = 90_000
"""More than any card of the generator has."""

PodMaker = Callable[[int], Json]


def run_decisions(sizes: tuple[int, ...], *, with_oracle: bool) -> None:
    """Print the cases for clusters of so many nodes, eight pods a node."""
    for nodes in sizes:
        objects = make_cluster(Scale(nodes, nodes * CARDS_PER_NODE))
        subject = make_subject(objects)
        # What is live now stays; as the scheduler does after its lists.
        gc.collect()
        gc.freeze()
        oracle = Oracle(objects) if with_oracle else None
        _run_size(subject, oracle, nodes, objects)


def _run_size(subject: Subject, oracle: Oracle | None, nodes: int, objects: ClusterObjects) -> None:
    size = {"nodes": nodes, "pods": len(objects.pods)}
    shares = lambda number: make_pod(number, memory_mib=1000, cores=5)  # noqa: E731 - one line a case reads best
    print_case("decision, repeated shape", **size, **_repeat(subject, shares, oracle))
    print_case(
        "decision, repeated shape, two containers",
        **size,
        **_repeat(subject, lambda number: make_pod(number, memory_mib=500, cores=1, containers=2), oracle),
    )
    print_case("decision, new shape", **size, **_ask_anew(subject, containers=1))
    print_case("decision, new shape, three containers", **size, **_ask_anew(subject, containers=3))
    _know_cpu(subject)
    stranding = lambda number: _look_ahead(shares(number))  # noqa: E731 - one line a case reads best
    print_case("decision, repeated shape, fragmentation", **size, **_repeat(subject, stranding, None))
    print_case("decision, new shape, fragmentation", **size, **_ask_anew(subject, containers=1, change=_look_ahead))
    _expect_large_pods(subject)
    print_case("decision, repeated shape, fragmentation, large pods", **size, **_repeat(subject, stranding, None))
    too_large = lambda number: make_pod(number, memory_mib=MAX_MEMORY_MIB, cores=5)  # noqa: E731
    print_case("decision, nothing fits, every reason", **size, **_repeat(subject, too_large, oracle, times=200))
    # What was told of all nodes must be told anew.
    changed = _repeat(subject, too_large, None, times=200, between=shares)
    print_case("decision, nothing fits, every reason, a card changed before", **size, **changed)


def _repeat(
    subject: Subject,
    maker: PodMaker,
    oracle: Oracle | None,
    times: int = REPEATED,
    between: PodMaker | None = None,
) -> dict[str, object]:
    candidates = subject.vendor_scheduler.look_up(subject.names)
    held: deque[Demand] = deque()
    numbers = _numbers()
    subject.decide(warm := subject.read_demand(maker(next(numbers))), candidates)
    subject.release(warm)
    times_s, refits = [], subject.refits
    for _ in range(times):
        if between is not None:
            held.append(subject.read_demand(between(next(numbers))))
            subject.decide(held[-1], candidates)
        demand = subject.read_demand(maker(next(numbers)))
        began_s = time.perf_counter()
        subject.decide(demand, candidates)
        times_s.append(time.perf_counter() - began_s)
        held.append(demand)
        if len(held) > HELD:
            subject.release(held.popleft())
    figures: dict[str, object] = {**summarize(times_s)}
    figures["nodes_refitted_per_decision"] = round((subject.refits - refits) / times, 2)
    for demand in held:
        subject.release(demand)
    return figures | (_compare(oracle, maker(next(numbers)), figures) if oracle is not None else {})


def _compare(oracle: Oracle, pod: Json, figures: dict[str, object]) -> dict[str, object]:
    times_s = []
    read = msgspec.convert(pod, Pod)
    for _ in range(ORACLE_CALLS):
        began_s = time.perf_counter()
        oracle.decide(read)
        times_s.append(time.perf_counter() - began_s)
    p50_ms = summarize(times_s)["p50_ms"]
    return {"oracle_p50_ms": p50_ms, "ratio": round(p50_ms / float(str(figures["p50_ms"])))}


def _know_cpu(subject: Subject) -> None:
    """Give nodes CPU, some of it in use, as the scheduler knows it of live nodes."""
    random = Random(1)
    for name in subject.names:
        capacity = random.choice((64_000, 96_000, 128_000))
        subject.parts.state.cluster.set_cpu(name, HostCpu(random.randrange(capacity), capacity))


def _expect_large_pods(subject: Subject) -> None:
    """Let pods of eight cards be expected too, for which fragmentation keeps nodes."""
    large = {ExpectedShape("NVIDIA", cpu, CARDS_PER_NODE, 0, 100, 100): 10 for cpu in (32_000, 64_000, 88_000, 96_000)}
    subject.vendor_scheduler.state.table.outlook.expect(PodMix({**USUAL_MIX.counts, **large}))


def _look_ahead(pod: Json) -> Json:
    """Let a pod ask for the policy fragmentation, and for CPU."""
    pod["metadata"]["annotations"] = {NODE_POLICY: "fragmentation"}
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "4"}
    return pod


def _ask_anew(
    subject: Subject, *, containers: int, change: Callable[[Json], Json] = lambda pod: pod
) -> dict[str, object]:
    """Decide for shapes that nobody has asked for before."""
    candidates = subject.vendor_scheduler.look_up(subject.names)
    times_s = []
    for number, memory_mib in zip(_numbers(), range(501, 501 + NEW_SHAPES), strict=False):
        memory = memory_mib + containers * NEW_SHAPES
        demand = subject.read_demand(change(make_pod(number, memory_mib=memory, cores=3, containers=containers)))
        began_s = time.perf_counter()
        subject.decide(demand, candidates)
        times_s.append(time.perf_counter() - began_s)
        subject.release(demand)
    return dict(summarize(times_s))


def _numbers() -> Iterator[int]:
    """Numbers of pods that the cluster does not have."""
    return count(10_000_000)
