"""How long it takes to plan whom to evict for a pod that fits nowhere: processor time, and the longest step.

``.venv/bin/python benchmarks/preempting.py`` fills nodes of 8 cards with a pod on each, of four priorities, and plans
for pods of one card and of eight. All reservations are read ahead, as the scheduler does, or by the first plan.
"""

import argparse
import statistics
import time
from random import Random

from figures import print_case

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.preemption.lowest_priorities import LowestPriorities
from gpuloom.engine.planning.preemption.planner import PreemptionPlanner
from gpuloom.engine.planning.preemption.potential_victim import PotentialVictim
from gpuloom.engine.planning.preemption.victims import PreemptionPlan, Preemptor
from gpuloom.engine.request.demand import read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.model.card import Card
from gpuloom.model.nodecards import NodeCards
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import load_default_profiles, make_catalog
from gpuloom.wire.objects import Container, ObjectMeta, Pod, PodSpec, Resources

CARDS = 8
PRIORITIES = (0, 0, 10, 1000)
CATALOG = make_catalog(load_default_profiles())


def make_card(uuid: str, index: int) -> Card:
    """Make a card of 40,000 MiB."""
    facts = {"index": index, "count": 10, "memory_mib": 40_000, "cores": 100}
    return Card(id=uuid, model="NVIDIA A100", mode="hami-core", healthy=True, **facts)


def make_pod(cards: int) -> Pod:
    """Make a pod that asks for half of each of some cards."""
    resources = Resources(limits={"nvidia.com/gpu": cards, "nvidia.com/gpumem": 20_000})
    containers = [Container(name="main", resources=resources)]
    return Pod(ObjectMeta(name="p", namespace="default", uid="p"), PodSpec(containers=containers))


def fill(nodes: int) -> ClusterState:
    """Make a cluster in which no card has 20,000 MiB left."""
    chooser, state = Random(1), ClusterState(CATALOG)
    state.postpone()
    for number in range(nodes):
        name = f"node-{number:05}"
        cards = tuple(make_card(f"{name}-{index}", index) for index in range(CARDS))
        state.register(name, "NVIDIA", NodeCards(cards))
        for one in cards:
            share = Share(one.id, "NVIDIA", chooser.choice((30_000, 36_000, 40_000)), 50)
            held = Reservation(
                uid=f"pod-{one.id}",
                namespace=f"team-{chooser.randrange(50)}",
                name=one.id,
                node=name,
                shares={"NVIDIA": ((share,),)},
                container_types=(),
                status=ReservationStatus.CONFIRMED,
                since=0.0,
                priority=chooser.choice(PRIORITIES),
                started_at=chooser.randrange(10**6),
            )
            state.assume(held)
    state.catch_up()
    return state


def measure(scheduler: PodScheduler, index: LowestPriorities, cards: int) -> tuple[float, float, int]:
    """Plan once; processor time and the longest step, in seconds, and how many victims."""
    demands = read_demands(make_pod(cards), CATALOG, Options())
    planner = PreemptionPlanner(scheduler, PotentialVictim, {}, index=index)
    steps = planner.plan(Preemptor(demands, 500), tuple(scheduler.cluster_state.nodes))
    total_s = longest_s = 0.0
    plan: PreemptionPlan | None = None
    is_over = False
    while not is_over:
        began_s = time.process_time()
        try:
            next(steps)
        except StopIteration as end:
            plan, is_over = end.value, True
        step_s = time.process_time() - began_s
        total_s, longest_s = total_s + step_s, max(longest_s, step_s)
    return total_s, longest_s, len(plan.victims) if plan else 0


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    state = fill(given.nodes)
    for case in ("first plan, nothing read ahead", "first plan"):
        scheduler, index = PodScheduler(state, Options()), LowestPriorities()
        for _ in index.catch_up(state, "NVIDIA") if case == "first plan" else ():
            pass
        cpu_s, step_s, victims = measure(scheduler, index, 1)
        print_case(case, cpu_ms=cpu_s * 1e3, longest_step_ms=step_s * 1e3, victims=victims)
    for case, cards, runs in (
        ("plan, one card", 1, given.runs),
        ("plan, eight cards", CARDS, given.runs),
    ):
        found = [measure(scheduler, index, cards) for _ in range(runs)]
        cpu_ms, step_ms = (statistics.median(one[at] for one in found) * 1e3 for at in (0, 1))
        print_case(case, cpu_p50_ms=cpu_ms, longest_step_p50_ms=step_ms, victims=found[0][2])


if __name__ == "__main__":
    main()
