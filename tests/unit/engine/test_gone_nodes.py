"""What is kept is bounded by the nodes that there were at once, however many have come and gone."""

import gc
import types
from collections.abc import Sequence

import pytest
from comings import CATALOG, NOTHING, NVIDIA, cards_of, demands_of, tell, written

from gpuloom.engine.decision.imagined import imagine_placed
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.state.outlook import HostCpu
from gpuloom.engine.state.vacancies import MOST_GONE
from gpuloom.model.mig import MigAllocation, MigPlacement
from gpuloom.model.share import Share

GENERATIONS, NODES, CARDS = 20, 50, 2
ELSEWHERE = [f"elsewhere-{number}" for number in range(600)]
"""Makes lists of names so long that they are not read one by one."""
VENDORS = pytest.mark.parametrize("words", [(NVIDIA,), ("DCU", "Metax-SGPU", NVIDIA)])


def live_through(words: Sequence[str]) -> tuple[PodScheduler, list[list[str]]]:
    """Let nodes come, get some pods, and leave, but the last ones; return who decides, and the names in turn."""
    scheduler = PodScheduler(ClusterState(CATALOG), Options())
    lived = [[f"pool-{number}-node-{at}" for at in range(NODES)] for number in range(GENERATIONS)]
    for number, names in enumerate(lived):
        for before in lived[number - 1] if number else ():
            leave(scheduler.cluster_state, before, words)
        for name in names:
            for word in words:
                scheduler.cluster_state.register(name, word, cards_of(word, name, CARDS))
            scheduler.cluster_state.set_cpu(name, HostCpu(32_000, 64_000))
        for word in words:
            place_some(scheduler, word, names)
    return scheduler, lived


def leave(state: ClusterState, node: str, words: Sequence[str]) -> None:
    for held in state.ledger.on_node(node):
        state.forget(held.uid)
    state.set_cpu(node, None)
    for word in words:
        state.register(node, word, NOTHING)


def place_some(scheduler: PodScheduler, word: str, names: Sequence[str]) -> None:
    """Decide about a pod, one of several containers, and one that fits nowhere."""
    for cards in ((1,), (1, 1), (999,)):
        demands = demands_of(word, *cards)
        decision = scheduler.decide_among(demands, written([*names, *ELSEWHERE]))
        tell(decision)
        if decision.node is not None:
            uid = f"{word}-{decision.node}-{len(cards)}"
            scheduler.cluster_state.assume(imagine_placed(demands, decision, uid=uid))


@pytest.mark.slow
@VENDORS
def test_what_has_a_place_for_each_node_is_as_long_as_there_were_nodes_at_once(words: Sequence[str]) -> None:
    scheduler, _ = live_through(words)
    most = 1 + NODES + MOST_GONE + 1
    for word in words:
        table = scheduler.cluster_state[word].table
        assert len(table.names) <= most
        by_position = (table.starts, table.ends, table.facts_of, table.node_scores)
        assert max(len(column) for column in by_position) <= 2 * most
        results = scheduler.by_vendor[word].filter_cache.all()
        assert max(len(column) for one in results for column in (one.ranks, one.fitting)) <= most


def find_strings(root: object) -> set[str]:
    """Return all strings that can be reached from an object, but not by way of classes, functions and modules."""
    seen, left, found = set[int](), [root], set[str]()
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type | types.ModuleType | types.FunctionType | types.BuiltinFunctionType):
            continue
        seen.add(id(one))
        if isinstance(one, str):
            found.add(one)
        left += gc.get_referents(one)
    return found


@VENDORS
def test_names_of_nodes_that_are_long_gone_are_nowhere_any_more(words: Sequence[str]) -> None:
    scheduler, lived = live_through(words)
    last = -(-MOST_GONE // NODES) + 2
    long_gone = {name for names in lived[:-last] for name in names}
    found = find_strings(scheduler)
    assert not found & long_gone
    assert found >= set(lived[-1])


@pytest.mark.parametrize("is_known", [True, False])
def test_a_node_whose_pods_end_after_it_is_gone_is_forgotten_with_them(*, is_known: bool) -> None:
    state = ClusterState(CATALOG)
    if is_known:
        state.register("n", NVIDIA, cards_of(NVIDIA, "n", 1))
    part = MigAllocation(0, 0, "n-0", "1g.5gb", MigPlacement(0, 1))
    shares = {NVIDIA: ((Share("n-0", NVIDIA, 4864, 0),),)}
    state.assume(Reservation("p", "ns", "p", "n", shares, (), ReservationStatus.ASSUMED, 0.0, instances=(part,)))
    state.register("n", NVIDIA, NOTHING)
    assert state[NVIDIA].remembers({"n"})
    state.forget("p")
    assert not state[NVIDIA].remembers({"n"})
