"""How long the planner of moves takes, and how many moves it finds: on openb's cluster and on a larger one.

    .venv/bin/python benchmarks/defragmentation.py [--fill 0.9] [--nodes 5000] [--clusters openb,larger]

HAMi's defaults place pods until as much was asked for as there is and a third more; then pods end at random until so
much is allocated as --fill says. For pods of 1 to 8 whole cards, of which as many came as still fitted, it prints how
many moves make room, how long planning took, its longest step, and whether fewer may do; before that the same for moves
that make room for no pod in particular but strand less.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from random import Random
from typing import TypeVar

from gpuloom.engine.decision.imagined import imagine_reservation
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.defragmentation.hosts import HostFilters
from gpuloom.engine.planning.defragmentation.plan import DefragmentationPlan
from gpuloom.engine.planning.defragmentation.search import Defragmentation, Progress
from gpuloom.engine.planning.defragmentation.tidying import Tidying
from gpuloom.engine.planning.defragmentation.trials import MoveTrials
from gpuloom.engine.planning.moving import MovingPod
from gpuloom.engine.request.demand import Demands, read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.model.card import Card
from gpuloom.model.nodecards import NodeCards
from gpuloom.simulation.arrivals import make_arrivals
from gpuloom.simulation.pods import TracePod
from gpuloom.simulation.reading.traces import read_nodes, read_pods
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.wire.objects import Container, Node, ObjectMeta, Pod, PodSpec, Resources

OPENB = Path(__file__).parent / "openb"
OPTIONS = Options(node_policy="binpack", card_policy="spread")
CATALOG = Catalog(tuple(profile for profile in load_default_profiles() if profile.word == "NVIDIA"))
MOST_MOVES = 50
DEFAULT_MOVES = 10
_R = TypeVar("_R")
_ASKED = 1.33


def read_shape(cards: int, percent: int) -> Demands:
    """Return what a pod asks for that wants so much of so many cards."""
    limits: dict[str, str | int | float] = {
        "nvidia.com/gpu": cards,
        "nvidia.com/gpucores": percent,
        "nvidia.com/gpumem-percentage": percent,
    }
    pod = Pod(
        metadata=ObjectMeta(name="pod", namespace="default", uid="pod"),
        spec=PodSpec(containers=[Container(name="main", resources=Resources(limits=limits))]),
    )
    return read_demands(pod, CATALOG, OPTIONS)


def fill(nodes: dict[str, int], arriving: Iterator[TracePod], share: float) -> tuple[ClusterState, dict[str, Demands]]:
    """Place pods until more was asked for than there is, then end some until so much of all cards is allocated."""
    state, chooser, held = ClusterState(CATALOG), Random(1), dict[str, Demands]()
    sizes: dict[str, int] = {}
    capacity = 1000 * sum(nodes.values())
    for name, count in nodes.items():
        cards = [
            Card(
                id=f"{name}-{number}",
                index=number,
                count=10,
                memory_mib=100_000,
                cores=100,
                model="NVIDIA",
                mode="hami-core",
                healthy=True,
            )
            for number in range(count)
        ]
        state.register(name, "NVIDIA", NodeCards(tuple(cards)))
    scheduler, names, asked = PodScheduler(state, OPTIONS), list(nodes), 0
    shapes: dict[tuple[int, int], Demands] = {}
    for number, pod in enumerate(arriving):
        if asked >= _ASKED * capacity:
            break
        asked += pod.shape.demand
        if not pod.shape.gpus:
            continue
        place = pod.shape.gpus, pod.shape.milli // 10
        demands = shapes.setdefault(place, read_shape(*place)) if place in shapes else read_shape(*place)
        shapes[place] = demands
        if number % 100 == 0:
            chooser.shuffle(names)
        decision = scheduler.decide(demands, names)
        if decision.node is not None:
            uid = f"p{number}"
            state.assume(imagine_reservation(demands["NVIDIA"], decision.node, decision.shares, uid=uid))
            held[uid], sizes[uid] = demands, pod.shape.demand
    leaving = sorted(sizes)
    chooser.shuffle(leaving)
    while sum(sizes.values()) > share * capacity:
        uid = leaving.pop()
        state.forget(uid)
        del held[uid], sizes[uid]
    return state, held


def plan(state: ClusterState, held: dict[str, Demands], cards: int) -> tuple[DefragmentationPlan | None, list[float]]:
    """Plan for a pod of so many whole cards; tell the plan, and the seconds of processor time of each step."""
    search = Defragmentation(see(state, held), MOST_MOVES)
    return finish(search.plan(MovingPod("wanted", "default", "wanted", read_shape(cards, 100))))


def see(state: ClusterState, held: dict[str, Demands]) -> MoveTrials:
    """Return a cluster as planners see it."""
    nodes = {name: Node(metadata=ObjectMeta(name=name)) for name in state.nodes}
    hosts = HostFilters(nodes, None, lambda _uid: None)
    return MoveTrials(PodScheduler(state, OPTIONS), lambda one: held.get(one.uid), hosts)


def finish(steps: Generator[Progress, None, _R]) -> tuple[_R, list[float]]:
    """Take steps to their end; return what they give, and the seconds of processor time of each."""
    taken = list[float]()
    while True:
        start = time.process_time()
        try:
            next(steps)
        except StopIteration as end:
            found: _R = end.value
            return found, taken
        finally:
            taken.append(time.process_time() - start)


def use_up(state: ClusterState, cards: int) -> int:
    """Place pods of so many whole cards until none fits; these do not move."""
    demands, scheduler, names = read_shape(cards, 100), PodScheduler(state, OPTIONS), tuple(state.nodes)
    come = 0
    while (decision := scheduler.decide(demands, names)).node is not None:
        come += 1
        state.assume(imagine_reservation(demands["NVIDIA"], decision.node, decision.shares, uid=f"large-{come}"))
    return come


def settle() -> None:
    """Do what the scheduler does when it has read the cluster: what it knows is not looked at for garbage again."""
    gc.collect()
    gc.freeze()


def report(title: str, state: ClusterState, held: dict[str, Demands]) -> None:
    """Print what is found for pods of each size."""
    for cards in range(1, 9):
        fork = state.fork()
        come = use_up(fork, cards)
        found, taken = plan(fork, held, cards)
        case = {
            "case": f"{title}, {cards} whole cards",
            "nodes": len(state.nodes),
            "pods": len(held),
            "still_fitted": come,
            "moves": len(found.moves) if found else None,
            "is_fewest": bool(found and found.is_fewest),
            "cpu_s": round(sum(taken), 2),
            "longest_step_ms": round(1000 * max(taken), 1),
        }
        sys.stdout.write(json.dumps(case) + "\n")


def report_tidying(title: str, state: ClusterState, held: dict[str, Demands]) -> None:
    """Print what is found for no pod in particular, with as many moves as the command makes."""
    found, taken = finish(Tidying(see(state, held), DEFAULT_MOVES).plan())
    case = {
        "case": f"{title}, no pod",
        "nodes": len(state.nodes),
        "pods": len(held),
        "moves": len(found.moves),
        "stranded_before": round(found.before.stranded, 2),
        "stranded_after": round(found.after.stranded, 2),
        "cpu_s": round(sum(taken), 2),
        "longest_step_ms": round(1000 * max(taken), 1),
    }
    sys.stdout.write(json.dumps(case) + "\n")


def main() -> None:
    """Read the flags, and measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fill", type=float, default=0.9)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--clusters", default="openb,larger")
    flags = parser.parse_args()
    pods = read_pods(str(OPENB / "openb_pod_list_default.csv.xz"))
    if "openb" in flags.clusters:
        listed = read_nodes(str(OPENB / "openb_node_list_gpu_node.csv.xz"))
        nodes = {node.name: node.gpus for node in listed if node.gpus}
        filled = fill(nodes, iter(make_arrivals(pods, 1000 * sum(nodes.values()), 42)), flags.fill)
        settle()
        report_tidying("openb", *filled)
        report("openb", *filled)
    if "larger" in flags.clusters:
        chooser = Random(7)
        endless = (chooser.choice(pods) for _ in iter(int, 1))
        filled = fill({f"n{number}": 8 for number in range(flags.nodes)}, endless, flags.fill)
        settle()
        report_tidying("larger", *filled)
        report("larger", *filled)


if __name__ == "__main__":
    main()
