"""How many more pods like this one fit.

Where the column of cards says everything, cards are filled in rounds by the very rules that decide; otherwise pods are
placed one after another on a copy of the best nodes, as they would be, up to a limit.
"""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.imagined import imagine_placed
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.explanation.rule_matrix import make_rule_matrix
from gpuloom.engine.planning.lone_request import find_lone_request
from gpuloom.engine.request.demand import Demand, Demands
from gpuloom.engine.state.card_table import NO_NODE
from gpuloom.model.cards import Ints
from gpuloom.model.request_columns import UNBOUNDED

MOST_PLACED = 100
_MOST_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class Capacity:
    """So many pods fit; ``is_least``: counting stopped there. ``by_node``: nodes where any fit, most first."""

    pods: int
    is_least: bool
    by_node: tuple[tuple[str, int], ...]


NO_LIMITS: Mapping[str, int] = {}


def count_capacity(
    pod_scheduler: PodScheduler, demands: Demands, decision: Decision, limits: Mapping[str, int] = NO_LIMITS
) -> Generator[None, None, Capacity]:
    """Count in steps how many such pods fit beside what is there; ``decision`` is about one of them, and complete.

    ``limits`` are how many a node takes at most, whatever its cards allow; a node that is not in it has no limit.
    """
    names = [name for name, _ in decision.fitting.worst_first()[::-1] if limits.get(name, 1)]
    if len(demands) == 1:
        ((word, demand),) = demands.items()
        filled = _fill(pod_scheduler.by_vendor[word], demand, names, limits)
        if filled is not None:
            return filled
    yield
    return (yield from _place(pod_scheduler, demands, names, limits))


def _fill(
    scheduler: VendorScheduler, demand: Demand, names: Sequence[str], limits: Mapping[str, int]
) -> Capacity | None:
    """Fill the cards of one vendor; None where single cards do not tell how many pods are placed."""
    request = find_lone_request(scheduler, demand)
    if request is None or scheduler.headroom(demand) != UNBOUNDED:
        return None
    table = scheduler.state.fork().table
    cards = table.cards
    times: Ints = np.zeros(len(cards), np.int64)
    for _ in range(_MOST_ROUNDS):
        matrix = make_rule_matrix(scheduler, table, demand, request, UNBOUNDED)
        fits = matrix.bits == 0
        if not fits.any():
            break
        times += fits
        cards.used_slots[fits] += 1
        cards.used_memory_mib[fits] += matrix.required.memory_mib[fits]
        cards.used_cores[fits] += matrix.required.cores
    by_node = {}
    is_least = False
    for name in names:
        mine = times[table.rows_of(table.positions.get(name, NO_NODE))]
        if not _is_told_by_single_cards(mine, request.cards):
            return None
        pods = _most_pods(mine, request.cards)
        by_node[name] = min(pods, limits.get(name, pods))
        is_least |= by_node[name] == pods and bool(mine.max(initial=0) >= _MOST_ROUNDS)
    return _sum_up(by_node, is_least=is_least)


def _most_pods(times: Ints, cards: int) -> int:
    """Return how many pods can have so many different cards each, where cards serve so many times."""
    pods = int(times.sum()) // cards
    while pods and int(np.minimum(times, pods).sum()) < pods * cards:
        pods = int(np.minimum(times, pods).sum()) // cards
    return pods


def _is_told_by_single_cards(times: Ints, cards: int) -> bool:
    """Tell whether as many pods are placed whichever cards are chosen, where cards serve so many times."""
    return cards == 1 or bool(times.max(initial=0) <= 1) or int(np.count_nonzero(times)) <= cards


def _place(
    pod_scheduler: PodScheduler, demands: Demands, names: Sequence[str], limits: Mapping[str, int]
) -> Generator[None, None, Capacity]:
    """Place pods one after another, each where it would go beside those before it.

    A pod changes only its own node's rank, so as many nodes as pods are enough; where a quota leaves room for smaller
    cards than theirs only, others may have room still.
    """
    nodes = names[:MOST_PLACED]
    trial = pod_scheduler.fork(nodes)
    by_node: Counter[str] = Counter()
    for number in range(MOST_PLACED):
        yield
        open_nodes = [name for name in nodes if by_node[name] < limits.get(name, MOST_PLACED)]
        decision = trial.decide(demands, open_nodes)
        if decision.node is None:
            return _sum_up(by_node, is_least=len(nodes) < len(names))
        trial.cluster_state.assume(imagine_placed(demands, decision, uid=f"imagined-{number}"))
        by_node[decision.node] += 1
    return _sum_up(by_node, is_least=True)


def _sum_up(by_node: Mapping[str, int], *, is_least: bool) -> Capacity:
    order = sorted(((node, pods) for node, pods in by_node.items() if pods), key=lambda item: (-item[1], item[0]))
    return Capacity(sum(by_node.values()), is_least, tuple(order))
